"""Speculative rounds: what becomes of each drafted token, how far rounds reach, and which draft length is best."""

from typing import Any

from kvcalc.render.page import Target
from kvcalc.render.pictures.chart import (
    BARE,
    UPRIGHT,
    Spec,
    chart,
    chosen,
    coloured,
    dot,
    nominal,
    parameters,
    quantitative,
    rows_of,
)
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.lines import axis, labels, rule
from kvcalc.render.pictures.palette import Colours
from kvcalc.results.report import SpeculativeRounds
from kvcalc.units import format_count, format_things

FRAME = ("acceptance", "gamma")
HEIGHT = 250


def figure(found: SpeculativeRounds, command: str, colour: Colours) -> Figure:
    """Twelve rounds, P(A ≥ j), and the speed-up over the draft length."""
    rows = rows_of(found.rounds, "acceptance", "gamma", "seed", "round", "accepted")
    numbers = rows_of(found.rows, "acceptance", "gamma", "tokens_per_pass", "speedup", "reach")
    rates, gammas, seeds = (
        tuple(dict.fromkeys(row[name] for row in rows)) for name in ("acceptance", "gamma", "seed")
    )  # fmt: skip
    usual = min(range(len(rates)), key=lambda i: abs(rates[i] - 0.8))
    controls = (
        Control("acceptance", "Acceptance α", "range", rates, tuple(f"{one:.2f}" for one in rates), at=usual),
        Control("gamma", "Draft length γ", "range", gammas, at=gammas.index(4)),
        Control("seed", "Random rounds", "range", seeds, tuple(f"set {seed + 1}" for seed in seeds)),
    )
    state = {one.name: one.values[one.at] for one in controls}
    where = f"{format_things(found.batch, 'sequence')} of {format_count(found.context)} cached tokens"
    return Figure(
        title="Speculative rounds",
        says=f"Each row is one pass of the model over drafted tokens: it keeps them up to the first rejection and adds "
        f"one of its own. The speed-up is with draft {found.draft} on this deployment, at {where}.",
        rows=rows,
        numbers=numbers,
        tabled="numbers",
        specs=[_rounds(rows, state, colour), _reach(numbers, state, colour), _speedup(numbers, state, colour)],
        columns=(Column("gamma", "γ"), Column("tokens_per_pass", "tokens a pass"), Column("speedup", "speed-up")),
        filter=("acceptance",),
        controls=controls,
        readout=(
            Column("tokens_per_pass", "tokens a pass, expected", filter=FRAME),
            Column("speedup", "speed-up here", filter=FRAME),
        ),
        commands=(command,),
        layout="pair tall",
    )


def _rounds(rows: list[dict[str, Any]], state: dict[str, Any], colour: Colours) -> Spec:
    """A row a round, a cell a token; the tokens of the round at its end."""
    kinds = {"accepted": colour["teal"], "replaced": colour["magenta"], "bonus": colour["blue"],
             "discarded": colour["line"]}  # fmt: skip
    kind = ("datum.place <= datum.accepted ? 'accepted' : datum.place === datum.accepted + 1 ? "
            "(datum.accepted === gamma ? 'bonus' : 'replaced') : 'discarded'")  # fmt: skip
    cells = [
        {"calculate": "sequence(1, datum.accepted === gamma ? gamma + 2 : gamma + 1)", "as": "place"},
        {"flatten": ["place"]},
        {"calculate": kind, "as": "kind"},
    ]
    y = {"field": "round", "type": "ordinal", "title": "round", "axis": BARE}
    x = {"field": "place", "type": "ordinal", "title": "token of the round",
         "scale": {"domain": list(range(1, 11)), "paddingInner": 0.15},
         "axis": {**UPRIGHT, "values": list(range(1, 10))}}  # fmt: skip
    color = coloured("kind", kinds, 2, "square")
    faint = {"condition": {"test": "datum.kind === 'discarded'", "value": colour["muted"]}, "value": None}
    end = [{"calculate": "10", "as": "place"}, {"calculate": "datum.accepted + 1", "as": "emitted"}]
    layers: list[Spec] = [
        {"transform": cells, "mark": {"type": "rect", "cornerRadius": 2},
         "encoding": {"y": y, "x": x, "color": color, "stroke": faint}},
        {"transform": end, "mark": {"type": "text", "fontWeight": 600},
         "encoding": {"y": y, "x": x, "text": {"field": "emitted", "type": "quantitative"}}},
    ]  # fmt: skip
    return chart(rows, layers, height=HEIGHT, params=parameters(**state), transform=[chosen(*FRAME, "seed")],
                 description="Random rounds: accepted, replaced, bonus and discarded tokens")  # fmt: skip


def _numbers(rows: list[dict[str, Any]], layers: list[Spec], state: dict[str, Any], **more: Any) -> Spec:
    """A picture of the second set of rows."""
    found = chart(rows, layers, params=parameters(**state), **more)
    return found | {"data": {"name": "numbers", "values": rows}}


def _reach(rows: list[dict[str, Any]], state: dict[str, Any], colour: Colours) -> Spec:
    """P(A ≥ j): each bar adds itself to the tokens of a pass."""
    shown = [
        chosen(*FRAME),
        {"calculate": "sequence(1, datum.gamma + 1)", "as": "j"},
        {"flatten": ["reach", "j"]},
        {"calculate": "format(datum.reach, '.2f')", "as": "said"},
    ]
    x = {"field": "j", "type": "ordinal", "title": "at least j drafted tokens accepted", "axis": UPRIGHT,
         "scale": {"domain": list(range(1, 9))}}  # fmt: skip
    y = quantitative("reach", "P(A ≥ j) = αʲ", scale={"domain": [0, 1]}, axis=axis())
    layers: list[Spec] = [
        {"mark": {"type": "bar", "color": colour["teal"], "size": 18}, "encoding": {"x": x, "y": y}},
        {"mark": {"type": "text", "dy": -7, "color": colour["muted"]},
         "encoding": {"x": x, "y": y, "text": nominal("said")}},
    ]  # fmt: skip
    return _numbers(rows, layers, state, height=HEIGHT // 2, transform=shown, description="P(A ≥ j) by j")


def _speedup(rows: list[dict[str, Any]], state: dict[str, Any], colour: Colours) -> Spec:
    """The speed-up at this acceptance over the draft length, the chosen one in another colour."""
    x = {"field": "gamma", "type": "ordinal", "title": "draft length γ", "axis": UPRIGHT}
    y = quantitative("speedup", "speed-up", scale={"zero": True}, axis=axis())
    layers: list[Spec] = [
        {"mark": {"type": "line", "color": colour["blue"], "point": {"color": colour["blue"]}},
         "encoding": {"x": x, "y": y}},
        {"transform": [{"filter": "datum.gamma === gamma"}], "mark": dot(colour["magenta"]),
         "encoding": {"x": x, "y": y}},
        *labels({"x": x, "y": y, "text": quantitative("speedup", format=".2f")}, colour, dx=0, dy=-10, align="center"),
        *rule(Target("no gain", "y", 1.0), colour),
    ]  # fmt: skip
    return _numbers(rows, layers, state, height=HEIGHT // 2, transform=[{"filter": "datum.acceptance === acceptance"}],
                    description="Speed-up by draft length")  # fmt: skip
