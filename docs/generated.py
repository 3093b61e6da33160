"""For the cog blocks of the reference: what the code itself says of its commands, its JSON and its formulas."""

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import kvcalc.formulas
from kvcalc.answers.explain import docstring_lines
from kvcalc.cli import flags as shared
from kvcalc.cli.app import COMMANDS
from kvcalc.cli.flags import Flag
from kvcalc.cli.options import Command, Positional
from kvcalc.results.envelope import RESULTS, result_classes
from kvcalc.specs.base import Frozen

# The tables of flags that several commands take, in the order of the page.
GROUPS = {
    "Where": shared.GPU,
    "Layout": shared.LAYOUT,
    "Engine": shared.ENGINE,
    "llama.cpp": shared.LLAMACPP,
    "Numbers": shared.NUMBERS,
    "Memory": shared.MEMORY,
    "Cost": shared.COST,
    "Workload": (*shared.WORKLOAD, *shared.CONCURRENCY, *shared.TARGETS),
    "Output": shared.OUTPUT,
}


def anchor(title: str) -> str:
    """What a heading is linked by: dots go."""
    return title.lower().replace(".", "")


def command_of(name: str) -> Command:
    found: Command = import_module(f"kvcalc.cli.{name}").command
    return found


def commands() -> None:
    """A section for each command."""
    for name in COMMANDS:
        command = command_of(name)
        text = inspect.getdoc(command.function) or ""
        said, _, examples = text.partition("\b\n")
        shown, _, more = examples.partition("\n\n")
        print(f"### kvcalc {name}\n\n{_paragraph(said)}\n")
        print("```", inspect.cleandoc(shown), "```\n", sep="\n")
        if more:
            print(f"{_paragraph(more)}\n")
        own = [*_own(command.function), *(_flag(f, f.field in command.repeated) for f in command.flags if _differs(f))]
        if own:
            _table(("", "value", ""), own)
        print(f"Also takes {', '.join(_shared(command))}.\n")
        swept = [flag.names[0] for flag in command.flags if flag.field in command.repeated and not _differs(flag)]
        if swept:
            print(f"May be repeated: {', '.join(f'`{name}`' for name in swept)}.\n")


def flag_tables() -> None:
    """The flags that commands share."""
    for title, group in GROUPS.items():
        print(f"### {title}\n")
        _table(("", "value", ""), [_flag(flag, repeated=False) for flag in group])


def _shared(command: Command) -> Iterator[str]:
    """Whole tables by their title, parts of one flag by flag."""
    taken = {flag.field for flag in command.flags}
    for title, group in GROUPS.items():
        found = [flag for flag in group if flag.field in taken]
        left = [flag for flag in found if flag in command.flags]  # the others stand in the command's own table
        if found == list(group):
            yield f"[{title}](#{anchor(title)})"
        else:
            yield from (f"[`{flag.names[0]}`](#{anchor(title)})" for flag in left)


def _differs(flag: Flag) -> bool:
    """Not a flag of the shared tables, or with another line of help."""
    return flag not in {one for group in GROUPS.values() for one in group}


def _flag(flag: Flag, repeated: bool) -> tuple[str, str, str]:
    names = ", ".join(f"`{name}`" for names in flag.names for name in names.split("/"))
    more = " May be repeated." if repeated and "repeat" not in flag.help else ""
    return names, f"`{flag.metavar}`" if flag.metavar else "", flag.help + more


def _own(function: Callable[..., Any]) -> Iterator[tuple[str, str, str]]:
    """The words that are no flags."""
    for hint in get_type_hints(function, include_extras=True).values():
        for said in getattr(hint, "__metadata__", ()):
            if isinstance(said, Positional):
                yield f"`{said.metavar}`", "", said.help


def _table(heading: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    print("| " + " | ".join(heading) + " |")
    print("|" + "---|" * len(heading))
    for row in rows:
        print("| " + " | ".join(_safe(cell) for cell in row) + " |")
    print()


def _safe(text: str) -> str:
    return text.replace("|", "\\|")


def _paragraph(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.strip().split("\n\n"))


def results() -> None:
    """The keys of each command's `result`, and of what is nested in them, from the report classes."""
    described: set[type[Frozen]] = set()
    for command in RESULTS:
        print(f"## {command}\n")
        classes = result_classes(command)
        for kind in classes:
            _class(kind, described, "`result`" + (f", {kind.__name__}" if len(classes) > 1 else ""))


def _class(kind: type[Frozen], described: set[type[Frozen]], title: str = "") -> None:
    if kind in described:
        print(f"{title or kind.__name__}: as above.\n")
        return
    described.add(kind)
    said = (kind.__doc__ or "").strip() if "__doc__" in vars(kind) else ""
    print(f"**{title or kind.__name__}**{'. ' + _paragraph(said) if said else ''}\n")
    comments = _comments(kind)
    nested: list[type[Frozen]] = []
    rows = []
    for field in fields(kind):
        name = field.name
        rows.append((f"`{name}`", _typed(field.type, nested), comments.get(name, "")))
    _table(("key", "type", ""), rows)
    for one in nested:
        if one not in described:
            _class(one, described)


def _typed(annotation: Any, nested: list[type[Frozen]]) -> str:
    """A type as a reader of JSON thinks of it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if annotation is None or annotation is type(None):
        return "null"
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(_typed(one, nested) for one in arguments))
    if origin is tuple or origin is list:
        return f"list of {_typed(arguments[0], nested)}"
    if origin is dict:
        return f"object of {_typed(arguments[1], nested)}"
    if origin is Annotated:  # a number within limits
        return _typed(arguments[0], nested)
    if arguments:  # a Literal
        return " or ".join(f'"{one}"' for one in arguments)
    if isinstance(annotation, type) and issubclass(annotation, Frozen):
        if annotation not in nested:
            nested.append(annotation)
        return annotation.__name__
    return {int: "integer", float: "number", str: "string", bool: "boolean"}.get(annotation, "any")


def _comments(kind: type[Frozen]) -> dict[str, str]:
    """What stands behind `#` on the line of each field, in the class or in those that it extends."""
    found: dict[str, str] = {}
    for one in reversed(kind.__mro__):
        if one.__module__.startswith("kvcalc."):
            found |= {
                name: said.strip() for name, said in re.findall(r"^    (\w+): .*?#(.*)$", inspect.getsource(one), re.M)
            }
    return found


def formulas() -> None:
    """Every public formula: its meaning, arguments, expression, unit and source."""
    for module in sorted(iter_modules(kvcalc.formulas.__path__), key=lambda one: one.name):
        loaded = import_module(f"kvcalc.formulas.{module.name}")
        functions = [
            function
            for name, function in inspect.getmembers(loaded, inspect.isfunction)
            if function.__module__ == loaded.__name__ and not name.startswith("_")
        ]
        if not functions:
            continue
        print(f"## {module.name}\n\n{_paragraph(loaded.__doc__ or '')}\n")
        for function in sorted(functions, key=lambda one: one.__code__.co_firstlineno):
            _formula(function)


def _formula(function: Callable[..., Any]) -> None:
    text = inspect.getdoc(function) or ""
    lines = docstring_lines(function)
    meaning = text.partition("\n\n")[0]
    arguments = re.search(r"^Args:\n((?:    .*\n?)+)", text, re.M)
    print(f"### {function.__name__}\n\n{_paragraph(meaning)}\n")
    if "Formula" in lines:
        print(f"    {function.__name__} = {lines['Formula']}\n")
    if arguments:
        print("\n".join(_arguments(arguments[1])) + "\n")
    print(f"Unit: {'a plain number' if lines['Unit'] == '1' else lines['Unit']}. Source: {lines['Source']}.\n")


def _arguments(text: str) -> Iterator[str]:
    joined = re.sub(r"\n {5,}", " ", inspect.cleandoc(text))
    for line in joined.splitlines():
        name, colon, said = line.strip().partition(":")
        yield f"- `{name}`: {said.strip()}" if colon else f"- {line.strip()}"
