"""Page → text for a terminal: aligned columns within 80 characters where the content allows, colour only there."""

import os
import sys
import textwrap
from collections.abc import Callable
from typing import TextIO

from kvcalc.render.page import Bars, Block, Facts, Page, Plot, Table

WIDTH = 80
BAR_WIDTH = 30
_BOLD, _DIM, _GREEN, _RED, _CYAN = "1", "2", "32", "31", "36"


def wants_colour(stream: TextIO | None = None) -> bool:
    """Colour on a terminal only; NO_COLOR, FORCE_COLOR and TERM=dumb as everywhere. None: standard output."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"


def render(page: Page, colour: bool = False) -> str:
    """The whole page as lines of text."""

    def paint(text: str, code: str) -> str:
        return f"\x1b[{code}m{text}\x1b[0m" if colour and text else text

    parts = [_title(page, paint)]
    for block in page.blocks:
        heading = [paint(line, _BOLD) for line in _wrapped(block.title, "", "  ")] if block.title else []
        parts.append("\n".join([*heading, *_lines(block, colour)]))
    if page.notes:
        notes = [line for note in page.notes for line in _wrapped(f"· {note}", "  ", "    ")]
        parts.append("\n".join([paint("Assumed", _BOLD), *(paint(line, _DIM) for line in notes)]))
    return "\n\n".join(part for part in parts if part) + "\n"


def _title(page: Page, paint: Callable[[str, str], str]) -> str:
    """The title and the verdict beside it, or below where they are too long for one line."""
    title = _wrapped(page.title, "", "  ")
    if not page.verdict:
        return _painted(title, _BOLD, paint)
    verdict = _wrapped(page.verdict, "  ", "  ")
    code = _CYAN if page.good is None else _GREEN if page.good else _RED
    beside = len(verdict) == 1 and len(title[-1]) + len(verdict[0]) <= WIDTH
    return _painted(title, _BOLD, paint) + ("" if beside else "\n") + _painted(verdict, code, paint)


def _painted(lines: list[str], code: str, paint: Callable[[str, str], str]) -> str:
    return "\n".join(paint(line, code) for line in lines)


def _lines(block: Block, colour: bool) -> list[str]:
    if isinstance(block, Plot):
        from kvcalc.render.plot import terminal_lines

        return terminal_lines(block, WIDTH, colour)
    if isinstance(block, Table):
        return table_lines(block)
    if isinstance(block, Facts):
        return _facts(block)
    if isinstance(block, Bars):
        return _bars(block)
    return [line for text in block.lines for line in _wrapped(text, "  ", "    ")]


def _wrapped(text: str, first: str, rest: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False
    ) or [""]


def table_lines(table: Table) -> list[str]:
    """Columns two spaces apart, as wide as their widest cell: never truncated. A heading may have several lines.

    Where the columns are too many for one line, those that can be spared go; if they still are, each row takes several
    lines, the later ones indented.
    """
    heading = _heading(table.columns)
    rows = [*heading, *table.rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(table.columns))]
    kept, spare = list(range(len(widths))), list(table.spare)
    while spare and sum(widths[i] + 2 for i in kept) > WIDTH:
        kept.remove(spare.pop(0))
    parts = [[kept[i] for i in part] for part in _parts([widths[i] for i in kept])]
    lines = []
    for block in (heading, *([row] for row in table.rows)):
        for indent, part in zip(("  ", *["      "] * len(parts)), parts, strict=False):
            for row in block:
                cells = [row[i].ljust(widths[i]) if i in table.left else row[i].rjust(widths[i]) for i in part]
                if any(cell.strip() for cell in cells):
                    lines.append((indent + "  ".join(cells)).rstrip())
    return lines


def _parts(widths: list[int]) -> list[list[int]]:
    """The columns of each line of a row: as few lines as there can be, of about one length."""
    fewest = len(_filled(widths, WIDTH))
    return next(parts for limit in range(WIDTH + 1) if len(parts := _filled(widths, limit)) <= fewest)


def _filled(widths: list[int], limit: int) -> list[list[int]]:
    """Columns put on lines of at most `limit` characters one after the other; one too wide has its own."""
    parts: list[list[int]] = [[]]
    length = 0
    for i, width in enumerate(widths):
        if parts[-1] and length + 2 + width > limit:
            parts.append([])
            length = 4
        parts[-1].append(i)
        length += 2 + width
    return parts


def _heading(columns: tuple[str, ...]) -> list[tuple[str, ...]]:
    """One row a line, set low: the last lines of all headings stand beside each other."""
    split = [column.split("\n") for column in columns]
    height = max(len(lines) for lines in split)
    padded = [[""] * (height - len(lines)) + lines for lines in split]
    return list(zip(*padded, strict=True))


def _facts(block: Facts) -> list[str]:
    names = max((len(name) for name, _, _ in block.rows), default=0)
    values = max((len(value) for _, value, _ in block.rows), default=0)
    lines = []
    for name, value, remark in block.rows:
        start = f"  {name.ljust(names)}  {value.rjust(values)}"
        if not remark:
            lines.append(start.rstrip())
            continue
        room = max(20, WIDTH - len(start) - 2)
        first, *rest = textwrap.wrap(remark, room, break_long_words=False) or [""]
        lines.append(f"{start}  {first}")
        lines.extend(" " * (len(start) + 2) + more for more in rest)
    return lines


def _bars(block: Bars) -> list[str]:
    names = max((len(label) for label, _, _ in block.rows), default=0)
    texts = max((len(text) for _, _, text in block.rows), default=0)
    width = max(8, min(BAR_WIDTH, WIDTH - names - texts - 6))
    return [
        f"  {label.ljust(names)}  {bar(share, width).ljust(width)}  {text.rjust(texts)}"
        for label, share, text in block.rows
    ]


def bar(share: float, width: int = BAR_WIDTH) -> str:
    """A bar of eighths.

    >>> bar(0.5, 4), bar(0.53, 4), bar(2.0, 4)
    ('██', '██▏', '████')
    """
    eighths = round(min(max(share, 0.0), 1.0) * width * 8)
    full, part = divmod(eighths, 8)
    return "█" * full + (" ▏▎▍▌▋▊▉"[part] if part else "")
