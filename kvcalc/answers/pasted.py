"""A pasted serving command beside a question's own flags: `--serve`, and `serve` in a budget file."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from kvcalc.answers.command_model import BESIDE, command_model
from kvcalc.answers.own_names import in_fields
from kvcalc.answers.question import Loader, Question, ask
from kvcalc.catalog.budgets import flag_fields
from kvcalc.catalog.models import load_model
from kvcalc.catalog.serve.served import Served, read_command
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Report, engine_name
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.checked import flag_of

Answer = TypeVar("Answer", bound=Report)


@dataclass(frozen=True, kw_only=True)
class Pasted:
    """What a command became: the question's model and flags, and what is said of it."""

    model: str | None
    typed: Mapping[str, str]  # field → the flag of the command
    flags: Mapping[str, Any]  # the command's and the question's own; these win
    inputs: Mapping[str, Any]  # for `inputs`: `serve` and what else the command alone says
    assumptions: tuple[Assumption, ...]
    warnings: tuple[str, ...]


def pasted(text: str, flags: Mapping[str, Any], model: str | None = None, strict: bool = False) -> Pasted:
    """The question that a serving command poses.

    Args:
        text: the command, with whatever stands around it.
        flags: by field, given beside the command; they win over its own.
        model: given beside the command; stands for one that cannot be reached.
        strict: a flag that no version of the engine has is an error.

    Raises:
        KvcalcError: no engine's command, a variable without a value in a flag that counts, no model, or, where
            `strict`, an unknown flag.
    """
    asked = flags.get("engine")
    pasted = asked if asked is None or rules(asked).TIMED else None  # the lessons have no command line
    served = read_command(text, pasted)
    if pasted not in (None, served.engine):
        hint = f"leave --engine out, or paste the command of {asked}"
        raise KvcalcError(f"--serve: a command of {engine_name(served.engine)} beside --engine {asked}", hint=hint)
    if strict and served.unknown:
        name, nearest = served.unknown[0]
        raise KvcalcError(
            f"--serve: {engine_name(served.engine)} has no {name}", hint=_nearest(nearest) or "leave it out"
        )
    flags = in_fields({**flags, "engine": served.engine}) | ({"engine": asked} if asked else {})
    if asked is None:
        del flags["engine"]
    _check_variables(served, flags, model)
    known = set(flag_fields().values())
    fields = {name: value for name, value in served.fields.items() if name in known}
    beyond = {name: served.typed.get(name, name) for name in served.fields if name not in known}
    not_modelled = (*served.not_modelled, *((typed, "memory") for typed in dict.fromkeys(beyond.values())))
    found = command_model(served, model, flags)
    fields = {name: value for name, value in {**fields, **found.fields}.items() if name not in found.unsuited}
    own: dict[str, Any] = {"engine": served.engine}
    if served.version is not None:
        own["engine_version"] = served.version
    return Pasted(
        typed=served.typed,
        model=found.name,
        flags=own | fields | dict(flags),
        inputs=_inputs(served, not_modelled),
        assumptions=(*found.assumptions, *_replaced(served, fields, flags)),
        warnings=(*found.warnings, *_warnings(served, not_modelled)),
    )


def ask_served(model: str, flags: Mapping[str, Any], load: Loader = load_model) -> Question:
    """`ask`, where `serve` among the flags is a pasted command."""
    return question_of(model, flags, load)[0]


def question_of(
    model: str | None, flags: Mapping[str, Any], load: Loader = load_model
) -> tuple[Question, Pasted | None]:
    """The same, with what the command became.

    Raises KvcalcError where the question cannot be asked, or no model is named.
    """
    left = dict(flags)
    text = left.pop("serve", None)
    command = None if text is None else pasted(text, left, model, strict=bool(left.get("strict")))
    if command is not None:
        model, left = command.model, dict(command.flags)
    if model is None:
        raise KvcalcError("no model given", hint="name one, or paste a command with --serve")
    return ask(model, left, load=load), command


def taken_by(command: Pasted, fields: set[str]) -> Pasted:
    """The command as it counts for a question that knows these fields only; the rest is listed as ignored."""
    serve = dict(command.inputs["serve"])
    beyond = [name for name in command.flags if name not in fields]
    serve["ignored"] = list(dict.fromkeys([*serve["ignored"], *(command.typed.get(n, flag_of(n)) for n in beyond)]))
    flags = {name: value for name, value in command.flags.items() if name in fields}
    return dataclasses.replace(command, flags=flags, inputs={**command.inputs, "serve": serve})


def with_command(report: Answer, command: Pasted) -> Answer:
    """The report, saying of its inputs that they are from a command."""
    return replace(
        report,
        inputs={**report.inputs, **command.inputs},
        assumptions=(*report.assumptions, *command.assumptions),
        warnings=(*command.warnings, *report.warnings),
    )


def _check_variables(served: Served, flags: Mapping[str, Any], model: str | None) -> None:
    left = {name: found for name, found in served.unresolved.items() if name not in flags}
    if model is not None:
        left = {name: found for name, found in left.items() if name not in ("model", "revision")}
    if not left:
        return
    # What divides the model first: without it nothing can be said.
    first = sorted(left.items(), key=lambda item: (not item[0].endswith("parallel_size"), item[0] == "model"))
    said = ", ".join(f"{' and '.join(names)} in {typed}" for _, (typed, names) in first)
    only_model = set(left) <= {"model", "revision"}
    hint = BESIDE if only_model else f"put the value in its place, or give {flag_of(first[0][0])} beside --serve"
    raise KvcalcError(f"--serve: no value for {said}", hint=hint)


def _inputs(served: Served, not_modelled: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    serve = {
        "engine": served.engine,
        "model": served.model,
        "ignored": list(served.ignored),
        "not_modelled": [name for name, _ in not_modelled],
        "unknown": [name for name, _ in served.unknown],
        "unread_files": list(served.unread_files),
    }
    if len(served.models) > 1:
        serve["models"] = list(served.models)
    found: dict[str, Any] = {"serve": serve}
    if served.share_of is not None:
        found["memory_fraction_of"] = served.share_of
    if served.speculation is not None:
        found["speculation"] = dict(served.speculation)
    return found


def _replaced(served: Served, fields: Mapping[str, Any], flags: Mapping[str, Any]) -> tuple[Assumption, ...]:
    """The command's settings that a flag beside it stands in for."""
    found = []
    for name, value in fields.items():
        given = flags.get(name, value)
        if given != value:
            why = f"given beside --serve; the command's {served.typed.get(name, name)} {_word(value)} does not count"
            found.append(Assumption(name=name, value=_word(given), why=why))
    return tuple(found)


def _word(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value).lower().strip()


def _warnings(served: Served, not_modelled: tuple[tuple[str, str], ...]) -> tuple[str, ...]:
    found, who = list(served.notes), engine_name(served.engine)
    for name, nearest in served.unknown:
        found.append(f"--serve: {who} has no {name}{_meant(nearest)}; left out")
    found += [f"--serve: {path} could not be read, so what it sets is not known" for path in served.unread_files]
    for changes in dict.fromkeys(changes for _, changes in not_modelled):
        names = ", ".join(name for name, what in not_modelled if what == changes)
        found.append(f"--serve: not modelled, though it may change {changes}: {names}")
    if served.gone:
        found.append(f"--serve: no longer options of {who}: {', '.join(served.gone)}")
    return tuple(found)


def _meant(nearest: str | None) -> str:
    return f" (nearest: {nearest})" if nearest else ""


def _nearest(nearest: str | None) -> str:
    return f"did you mean {nearest}?" if nearest else ""
