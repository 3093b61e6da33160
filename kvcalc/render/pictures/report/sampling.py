"""Speculative sampling at one position: kept and resampled together are the target, whatever the draft."""

from typing import Any

from kvcalc.render.pictures.chart import BARE, Spec, chart, chosen, coloured, dot, parameters, quantitative
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.lines import axis
from kvcalc.render.pictures.palette import Colours
from kvcalc.results.report import Sampling

FRAME = ("tokens", "quality")
ROW = 52  # pixels of a token


def figure(found: Sampling, colour: Colours) -> Figure:
    """One stacked bar a token, the draft around it, the target as a line, the draws as a point."""
    seeds = tuple(range(len(found.distribution[0].drawn)))
    rows: list[dict[str, Any]] = [
        {"tokens": one.tokens, "quality": one.quality, "token": one.token, "target": one.target, "draft": one.draft,
         "kept": one.kept, "resampled": one.resampled, **{f"drawn{i}": one.drawn[i] for i in seeds}}
        for one in found.distribution
    ]  # fmt: skip
    numbers: list[dict[str, Any]] = [
        {"tokens": one.tokens, "quality": one.quality, "acceptance": one.acceptance} for one in found.rates
    ]
    qualities = tuple(dict.fromkeys(one.quality for one in found.rates))
    controls = (
        Control("quality", "Draft quality λ", "range", qualities, tuple(f"{one:g}" for one in qualities), at=3),
        Control("tokens", "Tokens", "select", tuple(dict.fromkeys(one.tokens for one in found.rates))),
        Control("draws", f"{found.draws:,} random draws", "range", (-1, *seeds),
                ("none", *(f"set {seed + 1}" for seed in seeds)), at=1),
    )  # fmt: skip
    state = {one.name: one.values[one.at] for one in controls}
    drawn = tuple(Column(f"drawn{i}", f"drawn, set {i + 1}") for i in seeds)
    return Figure(
        title="Speculative sampling is exact",
        says="A drafted token is kept with probability min(1, p / q); after a rejection another is drawn from what the "
        "draft gave too little. Kept and resampled end at the target, whatever the draft: a worse one only keeps less.",
        rows=rows,
        numbers=numbers,
        specs=[_bars(rows, state, colour)],
        columns=(Column("token", "token"), Column("target", "target p"), Column("draft", "draft q"),
                 Column("kept", "kept"), Column("resampled", "resampled"), *drawn),
        filter=FRAME,
        controls=controls,
        readout=(Column("acceptance", "acceptance rate", filter=FRAME),),
    )  # fmt: skip


def _bars(rows: list[dict[str, Any]], state: dict[str, Any], colour: Colours) -> Spec:
    parts = {"kept": colour["amber"], "resampled": colour["magenta"]}
    names = {"draft q": colour["blue"], "target p": colour["muted"], "drawn": colour["teal"]}
    y = {"field": "token", "type": "ordinal", "title": "token", "axis": BARE}
    x = quantitative("share", "probability", scale={"domain": [0, 1], "nice": False}, axis=axis(), stack="zero")
    plain = quantitative("at", axis=None, scale={"domain": [0, 1], "nice": False})
    part = coloured("part", parts | names, symbol="square")

    def named(field: str, name: str) -> list[Spec]:
        return [{"calculate": f"datum.{field}", "as": "at"}, {"calculate": f"'{name}'", "as": "part"}]

    drawn = [{"filter": "draws >= 0"}, {"calculate": "datum['drawn' + draws]", "as": "at"},
             {"calculate": "'drawn'", "as": "part"}]  # fmt: skip
    layers: list[Spec] = [
        {"transform": [{"fold": ["kept", "resampled"], "as": ["part", "share"]}],
         "mark": {"type": "bar", "height": 20}, "encoding": {"y": y, "x": x, "color": part}},
        {"transform": named("draft", "draft q"),
         "mark": {"type": "bar", "height": 32, "filled": False, "strokeWidth": 2, "opacity": 1},
         "encoding": {"y": y, "x": plain, "color": part}},
        {"transform": named("target", "target p"),
         "mark": {"type": "tick", "thickness": 3, "size": 42, "opacity": 1},
         "encoding": {"y": y, "x": plain, "color": part}},
        {"transform": drawn, "mark": {**dot(colour["teal"], 90), "stroke": colour["paper"]},
         "encoding": {"y": y, "x": plain, "color": part}},
    ]  # fmt: skip
    return chart(rows, layers, height={"step": ROW}, params=parameters(**state), transform=[chosen(*FRAME)],
                 description="For each token: kept and resampled beside draft and target")  # fmt: skip
