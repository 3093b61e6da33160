"""Blocks of a page as SVG, PNG and HTML, all from one spec."""

import json
import re
from typing import Any

import pytest

from kvcalc.errors import KvcalcError
from kvcalc.render.page import Bars, Plot, Series, Target
from kvcalc.render.pictures.answer import drawn
from kvcalc.render.pictures.chart import of_block
from kvcalc.render.pictures.library import Made
from kvcalc.render.pictures.palette import colours

PLOT = Plot(
    series=(
        Series("l4", (10.0, 20.0, 40.0), (400.0, 300.0, 100.0), marks=("4", "2", "1")),
        Series("h100-sxm", (50.0, 90.0), (9000.0, 2000.0), marks=("b8", "b1")),
    ),
    x_label="tokens/s per user",
    y_label="tokens/s per GPU",
    title="throughput & speed",
    points="batch",
    targets=(Target("50 ms a token", "x", 20.0), Target("2,000 in all", "y", 2000.0)),
)
BARS = Bars(rows=(("as it is", 1.0, "4.00 GiB"), ("fp8 cache", 0.5, "2.00 GiB")), title="caches")


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_points_targets_axes_and_series_have_their_names() -> None:
    found = texts(drawn("all", [PLOT, BARS], "svg").decode())
    wanted = ["4", "2", "1", "b8", "b1", "50 ms a token", "2,000 in all", "l4", "h100-sxm", PLOT.x_label, PLOT.y_label]
    for text in (*wanted, "throughput &amp; speed", "points: batch", "as it is", "2.00 GiB", "caches", "8,000"):
        assert text in found, text


def test_a_target_is_drawn_where_its_value_is() -> None:
    spec = of_block(PLOT._replace(series=PLOT.series[:1]), colours())
    rules = [layer for layer in spec["layer"] if layer["mark"] == "rule"]
    assert [layer["encoding"] for layer in rules] == [
        {"x": {"datum": 20.0, "type": "quantitative"}}, {"y": {"datum": 2000.0, "type": "quantitative"}}
    ]  # fmt: skip


def test_png() -> None:
    assert drawn("all", [PLOT], "png").startswith(b"\x89PNG")


def test_the_same_blocks_give_the_same_file() -> None:
    assert drawn("all", [PLOT], "svg") == drawn("all", [PLOT], "svg")


def test_many_points_have_no_labels_that_would_cover_each_other() -> None:
    x = tuple(float(i) for i in range(60))
    many = PLOT._replace(series=(Series("a", x, x, tuple(f"m{i}" for i in range(60))),), targets=())
    assert not [layer for layer in of_block(many, colours())["layer"] if layer["mark"]["type"] == "text"]


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(KvcalcError, match="nothing to draw"):
        drawn("a single point", [], "svg")


def figures_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="figure-data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


class NoLibrary:
    """In place of the JavaScript, which takes seconds and is tested in a browser."""

    def __enter__(self) -> "NoLibrary":
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def made(self, specs: list[dict[str, Any]]) -> Made:
        return Made("window.vega = {}", specs)


def test_a_page_holds_rows_tables_and_no_address_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcalc.render.pictures.answer.Library", NoLibrary)
    hostile = PLOT._replace(title="</script><b>", series=(PLOT.series[0]._replace(label="<i>l4</i>"), PLOT.series[1]))
    page = drawn("<answer>", [hostile, BARS], "html").decode()
    figures = figures_of(page)
    assert figures["figure-1"]["rows"]["rows"][0] == ["<i>l4</i>", 10.0, 400.0, "4"]
    assert "<b>" not in page
    assert "<i>l4" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    assert page.count("<table>") == 2
    assert "<td>400</td>" in page
    assert not re.findall(r'(?:src|href)="', page)
    assert "@import" not in page
    assert "url(" not in re.search(r"<style>(.*?)</style>", page, re.DOTALL)[1]  # type: ignore[index]
