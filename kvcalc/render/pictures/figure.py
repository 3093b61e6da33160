"""A figure of a page: its pictures, the rows that they share, its controls, and the table behind it."""

from typing import Any, Literal, NamedTuple

from kvcalc.render.page import Bars, Plot
from kvcalc.render.pictures.chart import Spec, of_block
from kvcalc.render.pictures.palette import Colours


class Control(NamedTuple):
    """What a reader can change: a parameter of the figure's specs, and of which rows the table shows."""

    name: str
    label: str
    kind: Literal["range", "select", "check"]
    values: tuple[Any, ...]
    labels: tuple[str, ...] = ()
    at: int = 0  # the place of the value that the figure starts with


class Column(NamedTuple):
    """One column of a table, or one number above the pictures: a field, in the unit that its heading names."""

    field: str
    heading: str
    factor: float = 1
    left: bool = False
    digits: int | None = None
    filter: tuple[str, ...] = ()  # of a number above the pictures: the controls that choose its row


class Figure(NamedTuple):
    """Rows, and what is made of them."""

    title: str
    rows: list[dict[str, Any]]
    specs: list[Spec]
    columns: tuple[Column, ...]
    filter: tuple[str, ...] = ()  # controls that choose the rows of the table
    controls: tuple[Control, ...] = ()
    readout: tuple[Column, ...] = ()
    numbers: list[dict[str, Any]] = []  # noqa: RUF012 - a second set of rows: one a frame
    tabled: Literal["rows", "numbers"] = "rows"  # which of them the table shows
    says: str = ""  # how to read it
    commands: tuple[str, ...] = ()  # that give the same in a terminal
    layout: Literal["", "pair", "pair tall"] = ""  # pictures beside each other; the first as high as two


def of_plot(plot: Plot, colour: Colours) -> Figure:
    """A plot with its points as the table."""
    spec = of_block(plot._replace(title=""), colour)
    marked = any(one.marks for one in plot.series)
    columns = (
        *((Column("series", "line", left=True),) if len(plot.series) > 1 else ()),
        *((Column("mark", plot.points or "point", left=True),) if marked else ()),
        Column("x", plot.x_label),
        Column("y", plot.y_label),
    )
    says = f"Each point is labelled with its {plot.points}." if marked and plot.points else ""
    return Figure(plot.title, spec["data"]["values"], [spec], columns, says=says)


def of_bars(bars: Bars, colour: Colours) -> Figure:
    """Bars with their texts as the table."""
    spec = of_block(bars._replace(title=""), colour)
    columns = (Column("label", "", left=True), Column("text", ""))
    return Figure(bars.title, spec["data"]["values"], [spec], columns)
