"""Batch and roofline: where the time of a step goes, what a batch gives, what binds, and what it takes in memory."""

from typing import Any

from kvcalc.render.page import Target
from kvcalc.render.pictures.chart import BARE, Spec, chart, chosen, coloured, dot, nominal, parameters, quantitative
from kvcalc.render.pictures.figure import Column, Control, Figure
from kvcalc.render.pictures.lines import axis, labels, rule
from kvcalc.render.pictures.palette import Colours
from kvcalc.results.report import Explorer, ExplorerPoint
from kvcalc.units import GIB, MILLISECOND, format_count, format_seconds

FRAME = ("cache", "context", "batch")
CURVE = ("cache", "context")
USUAL_BATCH, USUAL_CONTEXT = 64, 2048  # the lessons'


def figure(found: Explorer, command: str, colour: Colours) -> Figure:
    """Four pictures over one set of rows."""
    rows = [_row(point) for point in found.points]
    controls = _controls(found)
    state = {one.name: one.values[one.at] for one in controls}
    estimated = any(point.estimate_s for point in found.points)
    specs = [
        _time(rows, state, estimated, colour),
        _memory(rows, state, found, colour),
        _throughput(rows, state, found, colour),
        _roofline(rows, state, found, colour),
    ]
    return Figure(
        title="Batch and roofline explorer",
        says="Every sequence of a step shares one read of the weights and adds its own cache. Move the batch: the step "
        "gets longer only where the cache or the arithmetic outgrows the weights.",
        rows=rows,
        specs=specs,
        columns=_columns(estimated),
        filter=CURVE,
        controls=controls,
        readout=(
            Column("time_s", "time per token, ms", 1 / MILLISECOND, filter=FRAME),
            Column("output_tokens_per_s", "tokens/s", digits=0, filter=FRAME),
            Column("intensity_flop_per_byte", "FLOP per byte", filter=FRAME),
            Column("max_batch", "sequences that fit", filter=FRAME),
        ),
        commands=(command,),
        layout="pair",
    )


def _controls(found: Explorer) -> tuple[Control, ...]:
    batches, contexts, caches = (
        tuple(dict.fromkeys(getattr(point, name) for point in found.points)) for name in ("batch", "context", "cache")
    )
    return (
        Control("batch", "Batch", "range", batches, at=batches.index(_batch(found, contexts))),
        Control("context", "Context, tokens", "select", contexts, at=_place(contexts, USUAL_CONTEXT)),
        Control("cache", "Cache", "select", caches),
    )


def _batch(found: Explorer, contexts: tuple[int, ...]) -> int:
    """The lessons' batch, or the largest below it that fits."""
    context = contexts[_place(contexts, USUAL_CONTEXT)]
    here = [one for one in found.points if one.context == context and one.cache == found.points[0].cache]
    return max((one.batch for one in here if one.fits and one.batch <= USUAL_BATCH), default=here[0].batch)


def _place(values: tuple[Any, ...], usual: Any) -> int:
    return values.index(usual) if usual in values else 0


def _row(point: ExplorerPoint) -> dict[str, Any]:
    """The estimate where there is one, else the bound, beside what both are made of."""
    estimate = point.estimate_s
    return {
        "cache": point.cache,
        "context": point.context,
        "batch": point.batch,
        "fits": point.fits,
        "max_batch": point.max_batch,
        "bytes": point.bytes,
        "weight_bytes": point.weight_bytes,
        "cache_bytes": point.cache_bytes,
        "flops": point.flops,
        "intensity_flop_per_byte": point.intensity_flop_per_byte,
        "memory_time_s": point.memory_time_s,
        "compute_time_s": point.compute_time_s,
        "bound_s": point.bound_s,
        "time_s": point.bound_s if estimate is None else estimate.value,
        "low_s": None if estimate is None else estimate.low,
        "high_s": None if estimate is None else estimate.high,
        "output_tokens_per_s": point.output_tokens_per_s,
        "usd_per_million_output_tokens": point.usd_per_million_output_tokens,
        "stored_bytes_per_gpu": point.stored_bytes_per_gpu,
    }


def _columns(estimated: bool) -> tuple[Column, ...]:
    times: tuple[Column, ...] = (Column("bound_s", "bound, ms", 1 / MILLISECOND),)
    if estimated:
        times += (Column("time_s", "estimate, ms", 1 / MILLISECOND), Column("low_s", "low", 1 / MILLISECOND),
                  Column("high_s", "high", 1 / MILLISECOND))  # fmt: skip
    return (
        Column("batch", "batch"),
        Column("weight_bytes", "weights, GB", 1e-9),
        Column("cache_bytes", "cache, GB", 1e-9),
        Column("intensity_flop_per_byte", "FLOP/byte"),
        *times,
        Column("output_tokens_per_s", "tokens/s", digits=0),
        Column("usd_per_million_output_tokens", "$/M tokens"),
    )


def _time(rows: list[dict[str, Any]], state: dict[str, Any], estimated: bool, colour: Colours) -> Spec:
    """Bytes over bandwidth, FLOPs over peak, and the estimate with its range. The scale is of the batches that fit."""
    parts = {"weights": colour["orange"], "cache": colour["amber"], "other bytes": colour["muted"],
             "arithmetic": colour["blue"]}  # fmt: skip
    share = "datum.memory_time_s * 1000 * datum.{0} / datum.bytes"
    split: list[Spec] = [
        chosen("batch"),
        {"calculate": share.format("weight_bytes"), "as": "weights"},
        {"calculate": share.format("cache_bytes"), "as": "cached"},
        {"calculate": "max(0, datum.memory_time_s * 1000 - datum.weights - datum.cached)", "as": "others"},
        {"calculate": "datum.compute_time_s * 1000", "as": "computed"},
        {"fold": ["weights", "cached", "others", "computed"], "as": ["field", "ms"]},
        {"calculate": "{weights: 'weights', cached: 'cache', others: 'other bytes', computed: 'arithmetic'}"
         "[datum.field]", "as": "part"},
        {"calculate": "datum.field === 'computed' ? 'FLOPs' : 'bytes'", "as": "bar"},
        {"filter": "datum.ms > 0"},
    ]  # fmt: skip
    y = nominal("bar", axis={**BARE, "labelColor": colour["ink"]}, sort=["bytes", "FLOPs", "estimate"])
    x = quantitative("ms", "ms of one step", axis=axis())
    layers: list[Spec] = [
        {"transform": split, "mark": {"type": "bar", "height": 20},
         "encoding": {"y": y, "x": x, "color": coloured("part", parts),
                      "order": {"field": "part", "sort": "descending"}}},
        {"transform": [{"filter": "datum.fits"}, {"calculate": "datum.time_s * 1000", "as": "ms"}],
         "mark": {"type": "point", "opacity": 0}, "encoding": {"x": x}},
    ]  # fmt: skip
    if estimated:
        at = [
            chosen("batch"),
            {"calculate": "'estimate'", "as": "bar"},
            {"calculate": "datum.time_s * 1000", "as": "ms"},
            {"calculate": "datum.low_s * 1000", "as": "low"},
            {"calculate": "datum.high_s * 1000", "as": "high"},
        ]
        layers += [
            {"transform": at, "mark": {"type": "bar", "height": 3, "color": colour["muted"]},
             "encoding": {"y": y, "x": {"field": "low", "type": "quantitative"}, "x2": {"field": "high"}}},
            {"transform": at, "mark": dot(colour["teal"], 90),
             "encoding": {"y": y, "x": x}},
        ]  # fmt: skip
    return chart(rows, layers, height=96, params=parameters(**state), transform=[chosen(*CURVE)],
                 description="Time of one step: bytes over bandwidth, FLOPs over peak, and the estimate")  # fmt: skip


def _memory(rows: list[dict[str, Any]], state: dict[str, Any], found: Explorer, colour: Colours) -> Spec:
    """One GPU's memory: weights, what the engine takes, the cache of the batch, and the limit."""
    limit = found.memory_bytes_per_gpu / GIB
    weights, other = found.weight_bytes_per_gpu / GIB, found.other_bytes_per_gpu / GIB
    parts = {"weights": colour["orange"], "the engine": colour["muted"], "cache": colour["amber"]}
    order = "indexof(['weights', 'the engine', 'cache'], datum.part)"
    split: list[Spec] = [
        chosen("batch"),
        {"calculate": f"{weights}", "as": "weights"},
        {"calculate": f"{other}", "as": "the engine"},
        {"calculate": f"datum.stored_bytes_per_gpu / {GIB}", "as": "cache"},
        {"fold": list(parts), "as": ["part", "gib"]},
        {"calculate": order, "as": "order"},
    ]
    x = quantitative("gib", "GiB of one GPU", axis=axis())
    layers: list[Spec] = [
        {
            "transform": split,
            "mark": {"type": "bar", "height": 20},
            "encoding": {
                "x": x,
                "color": coloured("part", parts),
                "order": {"field": "order", "sort": "ascending"},
            },
        },
        *rule(Target(f"limit {limit:,.1f} GiB", "x", limit), colour),
    ]  # fmt: skip
    return chart(rows, layers, height=44, params=parameters(**state), transform=[chosen(*CURVE)],
                 description="Memory of one GPU: weights, the engine, the cache of the batch")  # fmt: skip


def _throughput(rows: list[dict[str, Any]], state: dict[str, Any], found: Explorer, colour: Colours) -> Spec:
    """Tokens per second against the time per token, a point a batch; hollow where it does not fit."""
    ms: Spec = {"calculate": "datum.time_s * 1000", "as": "ms"}
    x = quantitative("ms", "ms per token of each sequence", axis={**axis(True), "grid": False},
                     scale={"type": "log", "nice": False, "padding": 18})  # fmt: skip
    y = quantitative("output_tokens_per_s", "tokens/s", axis=axis())
    layers = [
        {"mark": {"type": "line", "color": colour["blue"]}, "encoding": {"x": x, "y": y, "order": {"field": "batch"}}},
        *_points(x, y, colour, "datum.batch === 1 || datum.batch >= 8"),
    ]
    target = found.tpot_target_s
    if target is not None:
        layers += rule(Target(f"{format_seconds(target)} a token", "x", target / MILLISECOND), colour)
    return chart(rows, layers, height=260, params=parameters(**state), transform=[chosen(*CURVE), ms],
                 description="Tokens per second against time per token, by batch")  # fmt: skip


def _points(x: Spec, y: Spec, colour: Colours, labelled: str) -> list[Spec]:
    """A point a batch, the chosen one in another colour; `labelled` says which have their number."""
    numbered = {"x": x, "y": y, "text": {"field": "batch", "type": "quantitative"}}
    filled = {"condition": {"test": "datum.fits", "value": colour["blue"]}, "value": colour["paper"]}
    said = {"batch": "batch", "time_s": "s per token", "output_tokens_per_s": "tokens/s",
            "intensity_flop_per_byte": "FLOP/byte"}  # fmt: skip
    tooltip = [quantitative(field, name, format=",.4~g") for field, name in said.items()]
    return [
        {"mark": {**dot(colour["blue"], 44), "stroke": colour["blue"], "strokeWidth": 1.5},
         "encoding": {"x": x, "y": y, "fill": filled, "tooltip": tooltip}},
        {"transform": [chosen("batch")],
         "mark": dot(colour["magenta"]),
         "encoding": {"x": x, "y": y, "tooltip": tooltip}},
        *({"transform": [{"filter": labelled}], **one} for one in labels(numbered, colour, dx=8, dy=8)),
    ]  # fmt: skip


def _roofline(rows: list[dict[str, Any]], state: dict[str, Any], found: Explorer, colour: Colours) -> Spec:
    """FLOP/s against FLOP per byte under the roof: the slope is the bandwidth, the ceiling the peak."""
    reached: Spec = {"calculate": "datum.flops / datum.time_s / 1e12", "as": "reached"}
    ridge, peak = found.ridge_flop_per_byte, found.peak_flops
    low, high = 0.5, 4 * ridge
    roof = [{"i": i, "f": min(peak, i * found.bandwidth_bytes_per_s) / 1e12} for i in (low, ridge, high)]
    log: Spec = {"type": "log", "nice": False}
    x = quantitative("intensity_flop_per_byte", "FLOP per byte", axis={**axis(True), "grid": False},
                     scale={**log, "domain": [low, high]})  # fmt: skip
    y = quantitative("reached", "TFLOP/s", axis=axis(True), scale={**log, "padding": 14})
    layers: list[Spec] = [
        {"data": {"values": roof}, "mark": {"type": "line", "color": colour["muted"], "strokeWidth": 1.5},
         "encoding": {"x": quantitative("i"), "y": quantitative("f")}},
        {"data": {"values": roof[1:2]},
         "mark": {"type": "text", "align": "right", "dx": 0, "dy": -8, "color": colour["muted"]},
         "encoding": {"x": quantitative("i"), "y": quantitative("f"),
                      "text": {"value": f"ridge {format_count(ridge)}"}}},
        *_points(x, y, colour, "datum.batch === 1 || datum.batch === batch"),
    ]  # fmt: skip
    return chart(rows, layers, height=260, params=parameters(**state), transform=[chosen(*CURVE), reached],
                 description="Roofline: TFLOP/s reached against FLOP per byte, by batch")  # fmt: skip
