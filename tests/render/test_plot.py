"""Plots in the terminal."""

import pytest

from kvcalc.render.page import Plot, Series
from kvcalc.render.plot import terminal_lines

ONE = Plot(
    series=(Series("l4", (10.0, 20.0, 40.0), (400.0, 300.0, 100.0), marks=("4", "2", "1")),),
    x_label="tokens/s per user",
    y_label="tokens/s per GPU",
    title="llama-3-8b",
)
TWO = Plot(
    series=(*ONE.series, Series("h100-sxm", (50.0, 90.0), (900.0, 200.0))),
    x_label=ONE.x_label,
    y_label=ONE.y_label,
)


@pytest.mark.parametrize("plot", [ONE, TWO])
@pytest.mark.parametrize("width", [60, 80])
def test_it_has_the_width_and_names_its_axes(plot: Plot, width: int) -> None:
    lines = terminal_lines(plot, width, colour=False)
    assert lines[0] == "  tokens/s per GPU (up) against tokens/s per user (across)"
    assert max(map(len, lines)) <= width
    assert "\x1b" not in "".join(lines)


def test_ticks_run_from_the_least_to_the_most() -> None:
    text = "\n".join(terminal_lines(ONE, 80, colour=False))
    for tick in ("400┤", "100┤", "10 ", "40"):
        assert tick in text


def test_without_colour_series_differ_by_their_marker() -> None:
    text = "\n".join(terminal_lines(TWO, 80, colour=False))
    assert "●● l4" in text
    assert "▲▲ h100-sxm" in text


def test_with_colour_they_differ_by_colour() -> None:
    text = "\n".join(terminal_lines(TWO, 80, colour=True))
    assert len({code for code in text.split("\x1b[") if code.startswith("38;5;")}) > 1


def test_equal_points_do_not_divide_by_zero() -> None:
    flat = Plot(series=(Series("a", (1.0, 1.0), (2.0, 2.0)),), x_label="x", y_label="y")
    assert terminal_lines(flat, 80, colour=False)
