"""Static against continuous batching: what every slot does, below each other."""

from typing import Any

from kvcalc.render.pictures.chart import BARE, Spec, chart, coloured, nominal, parameters, quantitative, rows_of
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.lines import axis
from kvcalc.render.pictures.palette import Colours
from kvcalc.results.report import Schedules

FRAME = ("seed", "longest")
SLOT = 17  # pixels


def figure(found: Schedules, commands: tuple[str, ...], colour: Colours) -> Figure:
    """Both schedules over the same time."""
    names = ("seed", "longest", "scheduler", "slot", "request", "kind", "start_s", "end_s")
    rows = rows_of(found.segments, *names)
    numbers: dict[tuple[int, int], dict[str, Any]] = {}
    for one in found.schedules:
        row = numbers.setdefault((one.seed, one.longest), {"seed": one.seed, "longest": one.longest})
        row |= {
            f"{one.scheduler}_{name}": getattr(one, name) for name in ("slot_use", "duration_s", "output_tokens_per_s")
        }
    seeds, longest = (tuple(dict.fromkeys(getattr(one, name) for one in found.schedules)) for name in FRAME)
    controls = (
        Control("longest", "Longest answer, tokens", "select", longest, at=len(longest) // 2),
        Control("seed", "Random requests", "range", seeds, tuple(f"set {seed + 1}" for seed in seeds)),
    )
    state = {one.name: one.values[one.at] for one in controls}
    return Figure(
        title="Static against continuous batching",
        says=f"The same {found.requests} requests of {found.input_len} prompt tokens through {found.slots} slots of a "
        "replica. A static batch holds every slot until its longest answer ends; continuous batching gives a free slot "
        "to the next request at once.",
        rows=rows,
        numbers=list(numbers.values()),
        specs=[_schedule(rows, state, name, found.slots, colour) for name in ("static", "continuous")],
        columns=(Column("scheduler", "scheduler", left=True), Column("slot", "slot"), Column("request", "request"),
                 Column("kind", "does", left=True), Column("start_s", "from, s"), Column("end_s", "to, s")),
        filter=FRAME,
        controls=controls,
        readout=(
            Column("static_slot_use", "slots in use, static %", 100, filter=FRAME),
            Column("continuous_slot_use", "continuous %", 100, filter=FRAME),
            Column("static_output_tokens_per_s", "tokens/s, static", digits=0, filter=FRAME),
            Column("continuous_output_tokens_per_s", "continuous", digits=0, filter=FRAME),
        ),
        commands=commands,
    )  # fmt: skip


def _schedule(rows: list[dict[str, Any]], state: dict[str, Any], name: str, slots: int, colour: Colours) -> Spec:
    """A bar a slot; both pictures have the scale of the longer schedule."""
    kinds = {"prefill": colour["blue"], "decode": colour["amber"], "idle": colour["violet"]}
    frame = {"filter": " && ".join(f"datum.{one} === {one}" for one in FRAME)}
    own = {"filter": f"datum.scheduler === '{name}'"}
    y = {"field": "slot", "type": "ordinal", "title": f"slot, {name}", "scale": {"paddingInner": 0.18},
         "axis": BARE}  # fmt: skip
    x = {"field": "start_s", "type": "quantitative", "title": "seconds" if name == "continuous" else None,
         "axis": {**axis(), "grid": False}}  # fmt: skip
    tooltip = [nominal("request", "request"), nominal("kind", "does"),
               *(quantitative(field, field, format=".3~f") for field in ("start_s", "end_s"))]  # fmt: skip
    idle = "datum.kind === 'idle'"  # an outline: nothing is done
    outline: Spec = {
        "fillOpacity": {"condition": {"test": idle, "value": 0.14}, "value": 1},
        "stroke": {"condition": {"test": idle, "value": colour["violet"]}, "value": colour["paper"]},
    }
    layers: list[Spec] = [
        {"transform": [own], "mark": {"type": "bar", "strokeWidth": 1},
         "encoding": {"x": x, "x2": {"field": "end_s"}, "y": y, "tooltip": tooltip, **outline,
                      "color": coloured("kind", kinds) | ({} if name == "static" else {"legend": None})}},
        {"mark": {"type": "point", "opacity": 0}, "encoding": {"x": {"field": "end_s", "type": "quantitative"}}},
    ]  # fmt: skip
    return chart(rows, layers, height=SLOT * slots, params=parameters(**state), transform=[frame],
                 description=f"What each slot does over time, {name} batching")  # fmt: skip
