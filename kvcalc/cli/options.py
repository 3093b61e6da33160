"""From the table of flags to Typer: a command declares its arguments and receives the shared flags as one dict."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

from kvcalc.cli import complete
from kvcalc.cli.flags import Flag
from kvcalc.errors import KvcalcError

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A card, a Hub id (@revision), a folder, a config.json, a .gguf or a TOML.",
        show_default=False,
        autocompletion=complete.models,
    ),
]
ModelsArgument = Annotated[
    list[str],
    typer.Argument(metavar="MODEL", help="One or several models.", show_default=False, autocompletion=complete.models),
]

Flags = dict[str, Any]


class Command:
    """A command's function and the shared flags that it takes."""

    def __init__(self, function: Callable[..., Any], flags: Sequence[Flag], repeated: Collection[str]) -> None:
        self.function, self.flags, self.repeated = function, flags, repeated

    def for_typer(self, words: Sequence[str] | None = None) -> Callable[..., Any]:
        """The function that Typer calls, with the flags that the words of a command line name; None: with all.

        Typer prepares a validator for every option, a millisecond each: an eighth of the whole start if all 40 of
        them were registered each time. A word that is no flag of this command brings all, for Typer to complain.
        """
        flags = self.flags if words is None else self._named(words)
        hints = get_type_hints(self.function, include_extras=True)
        own = [
            _own(parameter, hints[parameter.name], optional=any(flag.field == "serve" for flag in flags))
            for parameter in inspect.signature(self.function).parameters.values()
            if parameter.name != "flags"
        ]
        shared = [_parameter(flag, flag.field in self.repeated) for flag in flags]

        @wraps(self.function)
        def command(**values: Any) -> Any:
            self._refuse_repeats(words or ())
            read = {flag.field: values.pop(flag.field) for flag in flags}
            given = {name: value for name, value in read.items() if value is not None and value != []}
            if "serve" in given:
                values, given = self._served(values, given)
            return self.function(**values, flags=given)

        command.__signature__ = inspect.Signature(own + shared)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in own + shared}
        return command

    def _served(self, values: dict[str, Any], given: Flags) -> tuple[dict[str, Any], Flags]:
        """A pasted command's model and flags, as if they had been typed."""
        from kvcalc.answers.pasted import pasted, taken_by

        several = "models" in values
        model = (values.get("models") or [None])[0] if several else values.get("model")
        command = pasted(given.pop("serve"), given, model, strict=bool(given.get("strict")))
        command = taken_by(command, {flag.field for flag in self.flags})
        if several:
            values["models"] = values["models"] or [command.model]
        else:
            values["model"] = command.model
        flags: Flags = {name: [value] if name in self.repeated and not isinstance(value, list) else value
                        for name, value in command.flags.items()}  # fmt: skip
        return values, flags | {"command": command}

    @property
    def _spelled(self) -> dict[str, Flag]:
        return {name: flag for flag in self.flags for names in flag.names for name in names.split("/")}

    def _named(self, words: Sequence[str]) -> Sequence[Flag]:
        spelled, given = self._spelled, _flag_words(words)
        if all(word in spelled for word in given):
            return list(dict.fromkeys(spelled[word] for word in given))
        return self.flags

    def _refuse_repeats(self, words: Sequence[str]) -> None:
        """Typer would silently keep the last value."""
        spelled = self._spelled
        once = [flag for word in _flag_words(words) if (flag := spelled.get(word)) and flag.kind == "text"]
        for flag in once:
            if flag.field not in self.repeated and once.count(flag) > 1:
                raise KvcalcError(
                    f"{flag.names[0]} is given twice", hint="give it once; `kvcalc compare` takes several"
                )


def _flag_words(words: Sequence[str]) -> list[str]:
    return [normal(word.partition("=")[0]) for word in words if word.startswith("-") and word != "-"]


def normal(word: str) -> str:
    """A flag as the tables spell it; vLLM takes --max_model_len too."""
    return word.replace("_", "-")


def takes(
    *groups: tuple[Flag, ...], repeated: Collection[str] = frozenset(), says: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Give a command the flags of these groups; it receives those that were set in its parameter `flags`.

    Fields in `repeated` may be given several times and arrive as lists. `says` has the lines of help that are
    another's in this command.
    """
    lines = says or {}
    flags = [flag._replace(help=lines.get(flag.field, flag.help)) for group in groups for flag in group]
    return lambda function: Command(function, flags, repeated)


def _own(parameter: inspect.Parameter, hint: Any, optional: bool) -> inspect.Parameter:
    """A command's own parameter; its MODEL may be left out where a pasted command names one."""
    found = parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
    if optional and parameter.name in ("model", "models") and parameter.default is inspect.Parameter.empty:
        kind, argument = get_args(hint)
        return found.replace(annotation=Annotated[kind | None, argument], default=None)
    return found


def _parameter(flag: Flag, repeated: bool) -> inspect.Parameter:
    option: Any = typer.Option(
        *flag.names,
        metavar=flag.metavar,
        help=flag.help,
        rich_help_panel=flag.panel,
        show_default=False,
        autocompletion=complete.gpus if flag.field == "gpu" else None,
    )
    kind: Any = str | None
    if flag.kind in ("switch", "bool"):
        kind = bool | None
    elif repeated or flag.kind == "texts":
        kind = list[str] | None
    return inspect.Parameter(
        flag.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )
