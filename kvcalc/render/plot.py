"""A plot in the terminal (plotext)."""

from kvcalc.render.page import Plot

_TERMINAL_HEIGHT = 20
_TICKS = 5
_COLOURS = ("cyan", "magenta", "green", "orange", "blue", "red")
_MARKERS = "●▲■◆★○△□◇☆"


def terminal_lines(plot: Plot, width: int, colour: bool) -> list[str]:
    """The plot as lines of text, its axes named above it; without colour the series differ by their marker."""
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
        draw = plotext.plot if marker == "braille" and not series.dots else plotext.scatter
        paint = {"color": _COLOURS[i % len(_COLOURS)]} if colour else {}
        draw(list(series.x), list(series.y), marker=marker, label=None if single else series.label, **paint)
    for axis, log, set_ticks in (("x", plot.log_x, plotext.xticks), ("y", plot.log_y, plotext.yticks)):
        if not log:
            set_ticks(*_ticks([value for series in plot.series for value in getattr(series, axis)]))
    built: str = plotext.build()
    if not colour:
        built = plotext.uncolorize(built)
    axes = f"  {plot.y_label} (up) against {plot.x_label} (across)"
    return [axes, *(line.rstrip() for line in built.rstrip().splitlines())]


def _ticks(values: list[float]) -> tuple[list[float], list[str]]:
    """From the smallest to the largest value, in whole numbers where they are large enough.

    >>> _ticks([0.0, 1200.0])
    ([0.0, 300.0, 600.0, 900.0, 1200.0], ['0', '300', '600', '900', '1,200'])
    """
    low, high = min(values), max(values)
    at = [low + (high - low) * i / (_TICKS - 1) for i in range(_TICKS)]
    digits = 0 if high - low >= 2 * _TICKS else 2
    return at, [f"{value:,.{digits}f}" for value in at]
