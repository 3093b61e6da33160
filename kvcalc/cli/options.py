"""From the table of flags to a command: what it takes, read plainly or by Typer, and how it is called."""

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, wraps
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from kvcalc.cli import complete
from kvcalc.cli.flags import OWN_NAMES, Flag
from kvcalc.cli.words import flag_words, normal, read
from kvcalc.errors import KvcalcError


class Positional(NamedTuple):
    """A word that is no flag: what stands for it in the help, its line there, and what the shell offers."""

    metavar: str
    help: str
    offer: Callable[[str], list[str]] | None = None


ModelArgument = Annotated[
    str,
    Positional("MODEL", "A card, a Hub id (@revision), a folder, a config.json, a .gguf or a TOML.", complete.models),
]
ModelsArgument = Annotated[list[str], Positional("MODEL", "One or several models.", complete.models)]

Flags = dict[str, Any]


class Command:
    """A command's function and the shared flags that it takes."""

    def __init__(self, function: Callable[..., Any], flags: Sequence[Flag], repeated: Collection[str]) -> None:
        self.function, self.flags, self.repeated = function, flags, repeated

    def knows(self, flag: str) -> bool:
        """Whether this is one of its flags, in any spelling."""
        return normal(flag) in self._spelled

    def plainly(self, words: Sequence[str]) -> Callable[[], Any] | None:
        """The call that the words of a plain command line mean; None: Typer has to read them."""
        line = read(words, self._spelled, self.repeated)
        if line is None or self._needs_more:
            return None
        names, values = list(line.names), dict[str, Any]()
        for name, (several, needed) in self._positionals.items():
            if not names and needed and "serve" not in line.flags:
                return None
            if several:
                values[name], names = names or None, []
            elif names:
                values[name] = names.pop(0)
            elif needed:
                values[name] = None
        return None if names else lambda: self.call(values, line.flags)

    @cached_property
    def _positionals(self) -> dict[str, tuple[bool, bool]]:
        """The words that are no flags, in their order: whether there may be several, whether it must be there."""
        found = {}
        for name, parameter in inspect.signature(self.function).parameters.items():
            kind, *marks = get_args(parameter.annotation) or (None,)
            if any(isinstance(mark, Positional) for mark in marks):
                found[name] = (get_origin(kind) is list, parameter.default is inspect.Parameter.empty)
        return found

    @property
    def _needs_more(self) -> bool:
        """Whether the function has to be given something that is declared for Typer alone."""
        parameters = inspect.signature(self.function).parameters.values()
        needed = {one.name for one in parameters if one.default is inspect.Parameter.empty}
        return not needed <= self._positionals.keys() | {"flags"}

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
            return self.call(values, {name: value for name, value in read.items() if value not in (None, [])})

        command.__signature__ = inspect.Signature(own + shared)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in own + shared}
        return command

    def call(self, values: dict[str, Any], flags: Flags) -> Any:
        """Run the command with what was given."""
        if flags.keys() & self._own_names and "serve" not in flags:
            from kvcalc.answers.own_names import in_fields

            flags = in_fields(flags)
        if "serve" in flags and "serve" not in self.repeated:  # who takes several reads them
            values, flags = self._served(values, flags)
        return self.function(**values, flags=flags)

    def _served(self, values: dict[str, Any], given: Flags) -> tuple[dict[str, Any], Flags]:
        """A pasted command's model and flags, as if they had been typed."""
        from kvcalc.answers.pasted import pasted, taken_by

        several = "models" in values
        model = (values.get("models") or [None])[0] if several else values.get("model") or given.pop("model", None)
        command = pasted(given.pop("serve"), given, model, strict=bool(given.get("strict")))
        command = taken_by(command, {flag.field for flag in self.flags})
        if several:
            values["models"] = values["models"] or [command.model]
        elif "model" in self._positionals:
            values["model"] = command.model
        flags: Flags = {name: [value] if name in self.repeated and not isinstance(value, list) else value
                        for name, value in command.flags.items()}  # fmt: skip
        named = {} if self._positionals.keys() & {"model", "models"} else {"model": command.model}
        return values, flags | named | {"command": command}

    @cached_property
    def _own_names(self) -> set[str]:
        """Fields that are an engine's own name for another."""
        return {flag.field for flag in self.flags if flag.field in OWN_NAMES}

    @cached_property
    def _spelled(self) -> dict[str, Flag]:
        return {name: flag for flag in self.flags for names in flag.names for name in names.split("/")}

    def _named(self, words: Sequence[str]) -> Sequence[Flag]:
        spelled, given = self._spelled, flag_words(words)
        if all(word in spelled for word in given):
            return list(dict.fromkeys(spelled[word] for word in given))
        return self.flags

    def _refuse_repeats(self, words: Sequence[str]) -> None:
        """Typer would silently keep the last value."""
        spelled = self._spelled
        once = [flag for word in flag_words(words) if (flag := spelled.get(word)) and flag.kind == "text"]
        for flag in once:
            if flag.field not in self.repeated and once.count(flag) > 1:
                raise KvcalcError(
                    f"{flag.names[0]} is given twice", hint="give it once; `kvcalc compare` takes several"
                )


def takes(
    *groups: tuple[Flag, ...], repeated: Collection[str] = frozenset(), says: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Command]:
    """Give a command the flags of these groups; it receives those that were set in its parameter `flags`.

    Fields in `repeated` may be given several times and arrive as lists. `says` has the lines of help that are
    another's in this command.
    """
    lines = says or {}
    first: dict[str, Flag] = {}  # a command's own flag stands for the shared one of its name
    for flag in (flag for group in groups for flag in group):
        first.setdefault(flag.field, flag._replace(help=lines.get(flag.field, flag.help)))
    return lambda function: Command(function, list(first.values()), repeated)


def _own(parameter: inspect.Parameter, hint: Any, optional: bool) -> inspect.Parameter:
    """A command's own parameter; its MODEL may be left out where a pasted command names one."""
    import typer

    found = parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)
    kind, *marks = get_args(hint) or (hint,)
    if not marks or not isinstance(marks[0], Positional):
        return found
    said = marks[0]
    shown = parameter.default not in (None, "-", inspect.Parameter.empty)
    argument: Any = typer.Argument(metavar=said.metavar, help=said.help, autocompletion=said.offer, show_default=shown)
    if optional and parameter.name in ("model", "models") and parameter.default is inspect.Parameter.empty:
        return found.replace(annotation=Annotated[kind | None, argument], default=None)
    return found.replace(annotation=Annotated[kind, argument])


def _parameter(flag: Flag, repeated: bool) -> inspect.Parameter:
    import typer

    option: Any = typer.Option(
        *flag.names,
        metavar=flag.metavar,
        help=flag.help,
        rich_help_panel=flag.panel,
        show_default=False,
        autocompletion=None if flag.metavar is None else complete.offer_for(flag.field),
    )
    kind: Any = str | None
    if flag.kind in ("switch", "bool"):
        kind = bool | None
    elif repeated or flag.kind == "texts":
        kind = list[str] | None
    return inspect.Parameter(
        flag.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )
