"""A page: what a report shows and in which order, before any format. Pages hold text; they compute nothing."""

from dataclasses import dataclass, field

from kvcalc.reports.base import Report


@dataclass(frozen=True)
class Table:
    """Columns of text. The first column is aligned left, the others right unless they are in `left`."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    title: str = ""
    left: frozenset[int] = frozenset({0})


@dataclass(frozen=True)
class Facts:
    """Names and values, one a line, with an optional remark."""

    rows: tuple[tuple[str, str, str], ...]
    title: str = ""


@dataclass(frozen=True)
class Bars:
    """Labelled bars: (label, share of the full width, text at the end)."""

    rows: tuple[tuple[str, float, str], ...]
    title: str = ""


@dataclass(frozen=True)
class Text:
    """Sentences, one a line."""

    lines: tuple[str, ...]
    title: str = ""


@dataclass(frozen=True)
class Series:
    """One line of a plot."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    marks: tuple[str, ...] = ()  # what each point stands for: its batch


@dataclass(frozen=True)
class Plot:
    """Lines in one frame."""

    series: tuple[Series, ...]
    x_label: str
    y_label: str
    title: str = ""
    log_x: bool = False
    log_y: bool = False


Block = Plot | Table | Facts | Bars | Text


@dataclass(frozen=True)
class Page:
    """One answer, ready for a format."""

    title: str
    blocks: tuple[Block, ...]
    verdict: str = ""  # a word or two beside the title: "fits"
    good: bool | None = None  # colours the verdict
    notes: tuple[str, ...] = field(default=())  # assumptions, at the end


def sources(report: Report) -> Text:
    """Where the numbers came from."""
    lines = (" · ".join(part for part in (s.what, s.url, s.date) if part) for s in report.sources)
    return Text(title="Sources", lines=tuple(dict.fromkeys(lines)))


def assumed(report: Report) -> tuple[str, ...]:
    """Each assumption of a report in a line, said once."""
    return tuple(dict.fromkeys(f"{one.name}{_value(one.value)}: {one.why}" for one in report.assumptions))


def _value(value: object) -> str:
    if value is None or isinstance(value, bool):
        return ""
    return f" {value:,}" if isinstance(value, int) else f" {value:g}" if isinstance(value, float) else f" {value}"
