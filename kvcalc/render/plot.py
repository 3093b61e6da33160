"""A plot in the terminal (plotext), or as SVG and PNG (matplotlib, in the extra `plot`)."""

import io
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.render.page import Plot

_TERMINAL_HEIGHT = 20
_MARKERS = "●▲■◆★○△□◇☆"


def terminal_lines(plot: Plot, width: int, colour: bool) -> list[str]:
    """The plot as lines of text; without colour the series differ by their marker."""
    import plotext

    plotext.clear_figure()
    plotext.limit_size(False, False)
    plotext.plot_size(width, _TERMINAL_HEIGHT)
    plotext.theme("clear")
    if plot.log_x:
        plotext.xscale("log")
    if plot.log_y:
        plotext.yscale("log")
    single = len(plot.series) == 1
    for i, series in enumerate(plot.series):
        marker = "braille" if single or colour else _MARKERS[i % len(_MARKERS)]
        draw = plotext.plot if marker == "braille" else plotext.scatter
        draw(list(series.x), list(series.y), marker=marker, label=None if single else series.label)
    plotext.xlabel(plot.x_label)
    plotext.ylabel(plot.y_label)
    built: str = plotext.build()
    if not colour:
        built = plotext.uncolorize(built)
    return [line.rstrip() for line in built.rstrip().splitlines()]


def image(plot: Plot, kind: str) -> bytes:
    """The plot as an SVG or PNG file, each point marked with what it stands for."""
    try:
        import matplotlib
    except ImportError as error:
        raise KvcalcError(
            f"--format {kind} needs matplotlib, which is not installed", hint="pip install 'kvcalc[plot]'"
        ) from error
    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "kvcalc"  # the same input gives the same file
    from matplotlib.figure import Figure as Canvas

    canvas = Canvas(figsize=(8, 5), layout="constrained")
    axes = canvas.subplots()
    _draw(axes, plot)
    out = io.BytesIO()
    canvas.savefig(out, format=kind, dpi=144, metadata={"Date": None} if kind == "svg" else None)
    return out.getvalue()


def _draw(axes: Any, plot: Plot) -> None:
    for series in plot.series:
        axes.plot(series.x, series.y, marker="o", markersize=3, label=series.label)
        for x, y, mark in zip(series.x, series.y, series.marks, strict=False):
            axes.annotate(mark, (x, y), textcoords="offset points", xytext=(3, 4), fontsize=6)
    if plot.log_x:
        axes.set_xscale("log")
    if plot.log_y:
        axes.set_yscale("log")
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.set_title(plot.title)
    axes.grid(alpha=0.3)
    if len(plot.series) > 1:
        axes.legend(fontsize=8)
