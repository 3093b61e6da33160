"""What a pasted command was understood as, under any page."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvcalc.render.page import Page, Text
from kvcalc.results.base import Report, engine_name

WIDTH = 74  # of a line that goes on in the next


def started_by(command: str) -> Text:
    """A command, as it can be pasted: a flag and its value stay on one line, and so does the comment under it."""
    command, _, note = command.partition("\n")
    words = shlex.split(command)
    pieces: list[list[str]] = [[]]
    for word in words:
        if word.startswith("-") and pieces[-1] and pieces[-1][-1] != "-m":
            pieces.append([])
        pieces[-1].append(word)
    lines = [""]
    for piece in map(shlex.join, pieces):
        if lines[-1] and len(lines[-1]) + len(piece) >= WIDTH:
            lines.append("  " + piece)
        else:
            lines[-1] = f"{lines[-1]} {piece}".strip() if len(lines) == 1 else f"{lines[-1]} {piece}"
    told = (note,) if note else ()
    return Text(title="The command", lines=(*(f"{line} \\" for line in lines[:-1]), lines[-1], *told))


def with_command(page: Page, report: Report) -> Page:
    """The page with what was read from the command; unchanged where none was pasted."""
    found = report.inputs.get("serve")
    commands = [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]
    commands = [one for one in commands if "engine" in one]
    if not commands:
        return page
    lines = [*_read(commands[0])] if len(commands) == 1 else [*_numbered(commands)]
    title = "From the command" if len(commands) == 1 else "From the commands"
    return page._replace(blocks=(*page.blocks, Text(title=title, lines=tuple(lines))))


def _numbered(commands: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    for number, one in enumerate(commands, start=1):
        first, *others = _read(one)
        yield f"{number}. {first}"
        yield from (f"   {line}" for line in others)


def _read(serve: Mapping[str, Any]) -> tuple[str, ...]:
    """What it is of, and what of it counts for nothing."""
    of = f"{serve['deployment']}: " if "deployment" in serve else ""
    lines = [f"{of}{engine_name(serve['engine'])}, {serve['model'] or 'no model named'}"]
    if serve["ignored"]:
        lines.append(f"changes nothing here: {', '.join(serve['ignored'])}")
    if serve["not_modelled"]:
        lines.append(f"not modelled: {', '.join(serve['not_modelled'])}")
    if serve["unknown"]:
        lines.append(f"not known, left out: {', '.join(serve['unknown'])}")
    return tuple(lines)
