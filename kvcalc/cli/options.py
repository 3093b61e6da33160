"""From the table of flags to Typer: a command declares its arguments and receives the shared flags as one dict."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from kvcalc.cli.flags import Flag

ModelArgument = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A card, a Hub id (@revision), a folder, a config.json, a .gguf or a TOML.",
        show_default=False,
    ),
]
ModelsArgument = Annotated[
    list[str], typer.Argument(metavar="MODEL...", help="One or several models.", show_default=False)
]

Flags = dict[str, Any]


def takes(*groups: tuple[Flag, ...], repeated: frozenset[str] = frozenset()) -> Callable[..., Callable[..., Any]]:
    """Give a command the flags of these groups; it receives those that were set in its last parameter, `flags`.

    Fields in `repeated` may be given several times and arrive as lists.
    """
    flags = [flag for group in groups for flag in group]

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        hints = get_type_hints(function, include_extras=True)
        own = [
            parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(function).parameters.values()
            if parameter.name != "flags"
        ]
        shared = [_parameter(flag, flag.field in repeated) for flag in flags]

        @wraps(function)
        def command(**values: Any) -> Any:
            read = {flag.field: values.pop(flag.field) for flag in flags}
            return function(**values, flags={name: value for name, value in read.items() if _set(value)})

        command.__signature__ = inspect.Signature(own + shared)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in own + shared}
        return command

    return decorate


def _set(value: object) -> bool:
    return value is not None and value != []


def _parameter(flag: Flag, repeated: bool) -> inspect.Parameter:
    option: Any = typer.Option(
        *flag.names, metavar=flag.metavar, help=flag.help, rich_help_panel=flag.panel, show_default=False
    )
    kind: Any = str | None
    if flag.kind in ("switch", "bool"):
        kind = bool | None
    elif repeated or flag.kind == "texts":
        kind = list[str] | None
    return inspect.Parameter(
        flag.field, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, option]
    )
