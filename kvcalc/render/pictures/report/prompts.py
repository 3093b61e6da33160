"""A long prompt beside decoding sequences: what everybody waits for each token while it is computed."""

from typing import Any

from kvcalc.render.page import Target
from kvcalc.render.pictures.chart import UPRIGHT, Spec, chart, chosen, coloured, parameters, quantitative, rows_of
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.lines import axis, rule
from kvcalc.render.pictures.palette import Colours
from kvcalc.results.report import Prompts
from kvcalc.units import MILLISECOND, format_count, format_seconds, format_things

FRAME = ("prompt", "mode")


def figure(found: Prompts, command: str, colour: Colours) -> Figure:
    """A bar a step, on a scale of logarithms, under the target."""
    rows = rows_of(found.steps, "prompt", "mode", "step", "tokens", "step_time_s")
    numbers = rows_of(found.modes, "prompt", "mode", "worst_step_s", "ratio", "prompt_s", "transfer_s", "steps")
    lengths, modes = (tuple(dict.fromkeys(row[name] for row in numbers)) for name in FRAME)
    controls = (
        Control("prompt", "Prompt, tokens", "select", lengths, at=len(lengths) - 1),
        Control("mode", "The prompt is computed", "select", modes, tuple(map(_said, modes))),
    )  # fmt: skip
    state = {one.name: one.values[one.at] for one in controls}
    everyone = f"{format_things(found.batch, 'sequence')} of {format_count(found.context)} tokens"
    return Figure(
        title="A long prompt: chunks and disaggregation",
        says=f"A prompt arrives beside {everyone} that decode. Each bar is one step: all of them wait that long for a "
        "token. Chunks spread the prompt over many short steps; GPUs of its own leave the others alone, for a second "
        "pool and a transfer of the cache.",
        rows=rows,
        numbers=numbers,
        tabled="numbers",
        specs=[_steps(rows, state, found, colour)],
        columns=(Column("mode", "computed in", left=True), Column("steps", "steps"),
                 Column("worst_step_s", "worst step, ms", 1 / MILLISECOND), Column("ratio", "× the plain step"),
                 Column("prompt_s", "prompt, s"), Column("transfer_s", "transfer, ms", 1 / MILLISECOND)),
        filter=("prompt",),
        controls=controls,
        readout=(
            Column("worst_step_s", "worst time per token, ms", 1 / MILLISECOND, filter=FRAME),
            Column("ratio", "× the plain step", filter=FRAME),
            Column("prompt_s", "until the prompt's first token, s", filter=FRAME),
            Column("transfer_s", "and the transfer, ms", 1 / MILLISECOND, filter=FRAME),
        ),
        commands=(command,),
    )  # fmt: skip


def _said(mode: str) -> str:
    return mode if mode.startswith("on ") else f"in {mode}"


def _steps(rows: list[dict[str, Any]], state: dict[str, Any], found: Prompts, colour: Colours) -> Spec:
    kinds = {"with the prompt": colour["blue"], "decode alone": colour["amber"]}
    kind = {"calculate": "datum.tokens > 0 ? 'with the prompt' : 'decode alone'", "as": "kind"}
    low = found.decode_step_s * 1000 / 2
    x = {"field": "step", "type": "ordinal", "title": "step since the prompt came", "scale": {"paddingInner": 0.15},
         "axis": {**UPRIGHT, "labelOverlap": True, "ticks": False}}  # fmt: skip
    y = quantitative(
        "ms",
        "ms per token of everybody",
        axis=axis(True),
        scale={"type": "log", "domainMin": low, "nice": False, "padding": 12},
    )
    target = Target(f"{format_seconds(found.tpot_target_s)}", "y", found.tpot_target_s / MILLISECOND)
    tooltip = [
        quantitative("step", "step"),
        quantitative("ms", "ms", format=".3~g"),
        quantitative("tokens", "prompt tokens"),
    ]
    layers: list[Spec] = [
        {"mark": {"type": "bar"},
         "encoding": {"x": x, "y": y, "y2": {"datum": low}, "tooltip": tooltip,
                      "color": coloured("kind", kinds, 2, "square")}},
        *rule(target, colour),
    ]  # fmt: skip
    return chart(rows, layers, height=240, params=parameters(**state),
                 transform=[chosen(*FRAME), {"calculate": "datum.step_time_s * 1000", "as": "ms"}, kind],
                 description="Time of each step while a prompt is computed, in milliseconds")  # fmt: skip
