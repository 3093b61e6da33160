"""A pool of blocks: what holds tokens, what is reserved or allocated and empty, what is shared."""

from typing import Any

from kvcalc.render.pictures.chart import Spec, chart, coloured, parameters, quantitative, rows_of
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.palette import Colours
from kvcalc.results.report import Pool

FRAME = ("mode", "moment")
ACROSS = 24  # blocks of a row: a region in one piece is one
CELL = 30  # pixels


def figure(found: Pool, commands: tuple[str, ...], colour: Colours) -> Figure:
    """The pool at a moment, as a grid of blocks. A moment is the same share of each mode's run."""
    places = _places(found)
    rows = [
        {"mode": one.mode, "moment": places[one.mode, one.step], **row}
        for one, row in zip(found.cells, rows_of(found.cells, "block", "request", "tokens", "holders"), strict=True)
    ]
    names = ("mode", "step", "running", "waiting", "tokens", "held_blocks", "used_share", "copies", "preemptions")
    numbers = [row | {"moment": places[row["mode"], row["step"]]} for row in rows_of(found.moments, *names)]
    modes = tuple(dict.fromkeys(one.mode for one in found.moments))
    moments = tuple(sorted(set(places.values())))
    controls = (
        Control("mode", "Cache", "select", modes),
        Control("moment", "Moment of the run", "range", moments, at=len(moments) // 3),
    )
    state = {one.name: one.values[one.at] for one in controls}
    return Figure(
        title="One piece a request against pages",
        says=_said(found),
        rows=rows,
        numbers=numbers,
        tabled="numbers",
        specs=[_grid(rows, state, found, colour)],
        columns=(Column("step", "step"), Column("running", "running"), Column("waiting", "waiting"),
                 Column("tokens", "tokens"), Column("held_blocks", "blocks held"),
                 Column("used_share", "filled, %", 100), Column("copies", "copied when written"),
                 Column("preemptions", "stopped")),
        filter=("mode",),
        controls=controls,
        readout=(
            Column("step", "step", filter=FRAME),
            Column("running", "running", filter=FRAME),
            Column("waiting", "waiting", filter=FRAME),
            Column("used_share", "of what is held has tokens, %", 100, filter=FRAME),
            Column("copies", "blocks copied when written", filter=FRAME),
            Column("preemptions", "requests stopped so far", filter=FRAME),
        ),
        commands=commands if found.as_served else (),
    )  # fmt: skip


def _said(found: Pool) -> str:
    """What the figure shows."""
    said = "" if found.as_served else " Of this model's cache, the part that grows with every token."
    return (
        f"A small pool of {found.blocks} blocks of {found.block_size} tokens and {found.requests} requests that come "
        f"together. In one piece, each keeps {found.reserved_tokens} tokens from its start to its end; paged, a block "
        "is taken when the last is full, and a fork shares its blocks until it writes. Of twice as many requests some "
        f"are stopped when no block is left, and wait to be computed anew, where the engine does that.{said}"
    )


def _places(found: Pool) -> dict[tuple[str, int], int]:
    """Of each shown step its number among the moments of its mode."""
    steps: dict[str, list[int]] = {}
    for one in found.moments:
        steps.setdefault(one.mode, []).append(one.step)
    return {(mode, step): i for mode, those in steps.items() for i, step in enumerate(those, 1)}


def _grid(rows: list[dict[str, Any]], state: dict[str, Any], found: Pool, colour: Colours) -> Spec:
    """A square a block, filled from below as its tokens come."""
    down = found.blocks // ACROSS
    across: Spec = {"calculate": f"datum.block % {ACROSS}", "as": "x0"}
    place: list[Spec] = [
        across,
        {"calculate": "datum.x0 + 0.9", "as": "x1"},
        {"calculate": f"{down} - floor(datum.block / {ACROSS})", "as": "y1"},
        {"calculate": "datum.y1 - 0.9", "as": "y0"},
    ]
    filled: Spec = {"calculate": f"datum.y0 + 0.9 * datum.tokens / {found.block_size}", "as": "yt"}
    x: Spec = quantitative("x0", axis=None, scale={"domain": [-0.2, ACROSS + 0.1], "nice": False})
    y: Spec = quantitative("y0", axis=None, scale={"domain": [-0.1, down + 0.1], "nice": False})
    said = {"block": "block", "request": "request", "tokens": f"tokens, of {found.block_size}", "holders": "held by"}
    tooltip = [quantitative(field, name) for field, name in said.items()]
    every = [{"block": i, "part": "free"} for i in range(found.blocks)]
    kinds = {"tokens": colour["amber"], "held, but empty": colour["violet"], "shared by two": colour["magenta"]}
    legend = coloured("kind", kinds, 2, "square")
    chosen: Spec = {"filter": "datum.mode === mode && datum.moment === moment"}
    kind: Spec = {"calculate": "datum.holders > 1 ? 'shared by two' : 'tokens'", "as": "kind"}
    empty: Spec = {"calculate": "'held, but empty'", "as": "kind"}
    layers: list[Spec] = [
        {"data": {"values": every}, "transform": place,
         "mark": {"type": "rect", "fill": colour["panel"], "stroke": colour["line"]},
         "encoding": {"x": x, "x2": {"field": "x1"}, "y": y, "y2": {"field": "y1"}}},
        {"transform": [chosen, *place, empty],
         "mark": {"type": "rect", "opacity": 1, "fillOpacity": 0.14, "stroke": colour["violet"], "strokeWidth": 1},
         "encoding": {"x": x, "x2": {"field": "x1"}, "y": y, "y2": {"field": "y1"}, "color": legend,
                      "tooltip": tooltip}},
        {"transform": [chosen, {"filter": "datum.tokens > 0"}, *place, filled, kind],
         "mark": {"type": "rect", "opacity": 1},
         "encoding": {"x": x, "x2": {"field": "x1"}, "y": y, "y2": {"field": "yt"}, "color": legend,
                      "tooltip": tooltip}},
    ]  # fmt: skip
    return chart(rows, layers, height=CELL * down, params=parameters(**state),
                 description="The pool as a grid of blocks: tokens, empty, free, shared")  # fmt: skip
