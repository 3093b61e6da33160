"""A page: what a report shows and in which order, before any format. Pages hold text; they compute nothing."""

from collections.abc import Iterable
from string import ascii_lowercase
from typing import Literal, NamedTuple

from kvcalc.results.assumptions import flag_for
from kvcalc.results.base import Report
from kvcalc.units import format_things


class Table(NamedTuple):
    """Columns of text. The first column is aligned left, the others right unless they are in `left`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    left: frozenset[int] = frozenset({0})
    spare: tuple[int, ...] = ()  # columns that go, the first one first, where a line has no room for them


class Facts(NamedTuple):
    """Names and values, one a line, with an optional remark."""

    rows: tuple[tuple[str, str, str], ...]
    title: str = ""


class Bars(NamedTuple):
    """Labelled bars: (label, share of the full width, text at the end)."""

    rows: tuple[tuple[str, float, str], ...]
    title: str = ""


class Text(NamedTuple):
    """Sentences, one a line."""

    lines: tuple[str, ...]
    title: str = ""


class Series(NamedTuple):
    """One line of a plot."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marks: tuple[str, ...] = ()  # what each point stands for: its batch
    dots: bool = False  # points that no line joins


class Target(NamedTuple):
    """A limit in the frame of a plot."""

    label: str
    axis: Literal["x", "y"]
    value: float


class Plot(NamedTuple):
    """Lines in one frame."""

    series: tuple[Series, ...]
    x_label: str
    y_label: str
    title: str = ""
    log_x: bool = False
    log_y: bool = False
    x_names: tuple[str, ...] = ()  # of the places 1, 2, 3 ... where the axis has no numbers
    points: str = ""  # what the marks are: batch, draft length
    targets: tuple[Target, ...] = ()  # drawn in pictures; a terminal's frame has no room for their names


Block = Plot | Table | Facts | Bars | Text


class Page(NamedTuple):
    """One answer, ready for a format."""

    title: str
    blocks: tuple[Block, ...]
    verdict: str = ""  # a word or two beside the title: "fits"
    good: bool | None = None  # colours the verdict
    notes: tuple[str, ...] = ()  # assumptions, at the end
    more: tuple[Block, ...] = ()  # what --explain shows beside the working


ALWAYS = ("calibration",)  # said on every page: the figures with it stand beside those without


def alike(rows: tuple[tuple[str, ...], ...], columns: range) -> tuple[int, ...]:
    """Of these columns, those that are the same in every row: a narrow line can do without them.

    >>> alike((("a", "1", "x"), ("b", "1", "y")), range(1, 3))
    (1,)
    """
    return tuple(i for i in columns if len(rows) > 1 and len({row[i] for row in rows}) == 1)


def narrow(table: Table, width: int = 80) -> bool:
    """Whether a row has room on one line, without the columns that can be spared.

    >>> narrow(Table(("a", "b"), (("x" * 70, "y" * 9),))), narrow(Table(("a", "b"), (("x" * 70, "y" * 9),), spare=(1,)))
    (False, True)
    """
    kept = [i for i in range(len(table.columns)) if i not in table.spare]
    cells = (*table.rows, *([part.split("\n") for part in table.columns],))
    widths = (
        max(len(line) for row in cells for line in ([row[i]] if isinstance(row[i], str) else row[i])) for i in kept
    )
    return sum(one + 2 for one in widths) <= width


def lettered(values: Iterable[str], longest: int) -> dict[str, str]:
    """A letter for each value that is too long for a column, by the value.

    >>> lettered(["l4", "rtx-pro-6000-maxq", "l4"], 12)
    {'rtx-pro-6000-maxq': 'a'}
    """
    return dict(zip((one for one in dict.fromkeys(values) if len(one) > longest), ascii_lowercase, strict=False))


def sources(report: Report) -> Text:
    """Where the numbers came from."""
    lines = (" · ".join(part for part in (s.what, s.url, s.date) if part) for s in report.sources)
    return Text(title="Sources", lines=tuple(dict.fromkeys(lines)))


def assumed(report: Report) -> tuple[str, ...]:
    """The assumptions that the user can change, each with its flag, what a calibration did, and how many others."""
    found = [(flag_for(one) or (one.name if one.name in ALWAYS else None), one) for one in report.assumptions]
    lines = dict.fromkeys(f"{flag}{_value(one.value)}: {one.why}" for flag, one in found if flag is not None)
    others = len({one.name for flag, one in found if flag is None})
    also = f"{others} more that no flag changes" if lines else format_things(others, "assumption")
    return (*lines, *((f"{also}: --explain lists {'them' if others > 1 else 'it'}",) if others else ()))


def all_assumed(report: Report) -> tuple[str, ...]:
    """Each assumption of a report in a line, said once."""
    lines = (f"{flag_for(one) or one.name}{_value(one.value)}: {one.why}" for one in report.assumptions)
    return tuple(dict.fromkeys(lines))


def _value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return ""
    return f" {value:,}" if isinstance(value, int) else f" {value:g}" if isinstance(value, float) else f" {value}"
