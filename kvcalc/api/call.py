"""A function's call as the command line would have it: fields, with a pasted command's among them."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar, get_type_hints

from kvcalc.answers.pasted import Pasted, pasted, taken_by, with_command
from kvcalc.api.arguments import field_of, fields_of, named
from kvcalc.api.groups import Name
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Report

Answer = TypeVar("Answer", bound=Report)


class Call(NamedTuple):
    """What is asked: the model's name, fields with raw values, and the command that said some of them."""

    model: str | None
    flags: dict[str, Any]
    explain: bool
    command: Pasted | None

    @property
    def the_model(self) -> str:
        if self.model is None:
            raise KvcalcError("no model given", hint="name one, or paste a command with serve")
        return self.model

    def said(self, report: Answer) -> Answer:
        """The report, saying of its inputs which are from a pasted command."""
        return report if self.command is None else with_command(report, self.command)


def call_of(model: Name | None, keywords: Mapping[str, Any], known: type) -> Call:
    """The call of a function with these keywords.

    Raises:
        KvcalcError: a keyword that is not known, or a value that means nothing.
    """
    from kvcalc.answers.own_names import in_fields

    model = named(model, "model")
    flags = fields_of(keywords, known)
    explain = bool(flags.pop("explain", False))
    if "serve" not in flags:
        return Call(model, in_fields(flags), explain, None)
    command = pasted(flags.pop("serve"), flags, model, strict=bool(flags.get("strict")))
    command = taken_by(command, {field_of(name) for name in get_type_hints(known)} | {"gpu"})
    return Call(command.model, dict(command.flags), explain, command)
