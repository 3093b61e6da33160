"""What a pasted command was understood as, under any page."""

import shlex

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
    serve = report.inputs.get("serve")
    if not isinstance(serve, dict) or "engine" not in serve:
        return page
    lines = [f"{engine_name(serve['engine'])}, {serve['model'] or 'no model named'}"]
    if serve["ignored"]:
        lines.append(f"changes nothing here: {', '.join(serve['ignored'])}")
    if serve["not_modelled"]:
        lines.append(f"not modelled: {', '.join(serve['not_modelled'])}")
    if serve["unknown"]:
        lines.append(f"not known, left out: {', '.join(serve['unknown'])}")
    return page._replace(blocks=(*page.blocks, Text(title="From the command", lines=tuple(lines))))
