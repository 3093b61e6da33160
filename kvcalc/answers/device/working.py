"""The working of `run` and `calibrate`: what was measured, and what was worked out from it, out of the kept results."""

from collections.abc import Iterator, Mapping

from kvcalc.answers.explain import figure_of, labelled
from kvcalc.results.base import Figure
from kvcalc.results.calibrate import CalibrateResult
from kvcalc.results.run import RunPoint, RunResult

MEASURED = "measured on this device: docs/explanation/executor.md"
FITTED = "least squares over what was measured, latency + bytes / bandwidth: docs/explanation/executor.md"
OFF = "measured / estimated - 1, of whole steps"


def run_working(result: RunResult) -> tuple[Figure, ...]:
    """Of each term of each point what was measured and how far off the estimate was; errors, memory, outputs."""
    figures = [
        _measured("read bandwidth", result.read_bandwidth_bytes_per_s, "bytes/s"),
        _measured(f"matrix product, {result.dtype}", result.peak_flops, "FLOP/s"),
    ]
    for point in result.points:
        where = f"{point.term}, batch {point.batch}, context {point.context}"
        figures += labelled(where, _of_point(point, result.read_bandwidth_bytes_per_s))
    steps = [point for point in result.points if point.term == "step"]
    accuracy = result.accuracy
    found = {"": [point.ratio for point in steps], " as calibrated": [point.ratio * point.drift for point in steps]}
    for which, ratios in found.items():
        figures += _errors(ratios, which)
    assert accuracy.points == len(steps)
    memory = result.memory
    parts = {"weights": memory.predicted_weight_bytes, "cache": memory.predicted_cache_bytes}
    allocated = {"weights": memory.measured_weight_bytes, "cache": memory.measured_cache_bytes}
    counted = "what the model's tensors and pages are counted to: docs/explanation/executor.md"
    figures += [
        figure_of("bytes, predicted", "weights + cache", parts, "bytes", counted),
        figure_of("bytes, allocated", "weights + cache", allocated, "bytes", MEASURED),
        _measured("outputs off a dense step", result.correct.max_rel_error, "of the dense output"),
        _measured("new keys and values off", result.correct.written_rel_error, "of the dense value"),
        _measured("logits off", result.correct.logits_rel_error, "of the dense logits"),
    ]
    for name, rate in {"products, one row": result.linear, "attention": result.attention}.items():
        figures += _rate(name, {"latency_s": rate.latency_s, "bandwidth_bytes_per_s": rate.bandwidth_bytes_per_s})
    return tuple(figures)


def _of_point(point: RunPoint, read_bandwidth: float) -> Iterator[Figure]:
    """What the step, or leaving a term out of it, took; and against what was expected."""
    estimate, measured = point.estimate_s.value, point.measured_s
    yield _measured("measured", measured, "s")
    yield _measured("windows spread by", point.spread, "90th over 10th percentile")
    inputs = {"measured_s": measured, "estimate_s": estimate}
    yield figure_of("measured over estimate", "measured_s / estimate_s", inputs, "ratio", OFF)
    kept = {"estimate_s": estimate, "as_calibrated_s": estimate / point.drift}
    yield figure_of("drift since the calibration", "estimate_s / as_calibrated_s", kept, "ratio", MEASURED)
    share = "docs/explanation/executor.md: all whole steps and four in five of their terms were between the ends"
    for end in ("low", "high"):
        part = {"share": getattr(point.estimate_s, end) / estimate if estimate else 1.0, "estimate_s": estimate}
        yield figure_of(f"estimate, {end}", "share * estimate_s", part, "s", share)
    if point.bandwidth_bytes_per_s is not None:
        moved = {"bytes": point.bytes, "measured_s": measured}
        yield figure_of("read at", "bytes / measured_s", moved, "bytes/s", MEASURED)
        read = {**moved, "read_bandwidth_bytes_per_s": read_bandwidth}
        formula = "bytes / measured_s / read_bandwidth_bytes_per_s"
        yield figure_of("share of the read bandwidth", formula, read, "share", MEASURED)
    if point.full_model_s is not None:
        whole = {"all_layers_s": point.full_model_s / point.ratio, "measured_over_estimate": point.ratio}
        formula = "all_layers_s * measured_over_estimate"
        yield figure_of("step of all layers", formula, whole, "s", "the estimate of all layers, off as those that ran")


def _errors(ratios: list[float], which: str) -> Iterator[Figure]:
    """How far whole steps were off, on average and at worst."""
    inputs = {f"ratio_{place}": ratio for place, ratio in enumerate(ratios)}
    each = [f"max({name} - 1, 1 - {name})" for name in inputs]
    yield figure_of(f"off on average{which}", f"({' + '.join(each)}) / {len(each)}", inputs, "share", OFF)
    worst = f"max({', '.join(each)})" if len(each) > 1 else each[0]
    yield figure_of(f"off at worst{which}", worst, inputs, "share", OFF)


def calibrate_working(result: CalibrateResult) -> tuple[Figure, ...]:
    """Of each constant what was measured, or what it was fitted to, and how far off the fit is."""
    read = result.read_bandwidth_bytes_per_s
    figures = [
        _measured("memory", result.memory_bytes, "bytes"),
        _measured("read bandwidth", read, "bytes/s"),
        _measured("copy bandwidth", result.copy_bandwidth_bytes_per_s, "bytes/s"),
        _measured("from kernel to kernel", result.dispatch_s, "s"),
        *(_measured(f"matrix product, {dtype}", peak, "FLOP/s") for dtype, peak in result.peak_flops.items()),
        *(_measured(f"windows spread by, {name}", spread, "90th over 10th percentile")
          for name, spread in result.spread.items()),
    ]  # fmt: skip
    for row in result.linear_rows:
        where = f"products of {row.rows} rows, {row.dtype}"
        rates = {"latency_s": row.latency_s, "bandwidth_bytes_per_s": row.bandwidth_bytes_per_s}
        figures += _fitted(where, rates, read, row.times_s, row.error)
        if row.plain_bandwidth_bytes_per_s is not None:
            figures.append(
                _measured(f"{where}: bandwidth in the usual order", row.plain_bandwidth_bytes_per_s, "bytes/s")
            )
    for one in result.attention_rows:
        where = f"attention, {one.group} x {one.head_dim}, pages of {one.page_size}, {one.dtype}"
        rates = {"latency_s": one.latency_s, "bandwidth_bytes_per_s": one.bandwidth_bytes_per_s}
        figures += _fitted(where, rates, read, one.times_s, one.error)
    for glue in result.glue_rows:
        where = f"norms and the like, {glue.dtype}{', between products' if glue.cold else ''}"
        where += ", with q and k norms" if glue.qk_norm else ""
        found = {"step_s": glue.step_s, "layer_s": glue.layer_s, "bandwidth_bytes_per_s": glue.bandwidth_bytes_per_s,
                 "sampler_bandwidth_bytes_per_s": glue.sampler_bandwidth_bytes_per_s}  # fmt: skip
        rates = {name: value for name, value in found.items() if value is not None}
        figures += _fitted(where, rates, None, glue.times_s, glue.error)
    return tuple(figures)


def _fitted(
    where: str, constants: Mapping[str, float], read: float | None, times: tuple[float, ...], error: float
) -> Iterator[Figure]:
    """Constants of a fit, each time that they were fitted to, and the fit's mean error."""
    yield from _rate(where, constants)
    for place, seconds in enumerate(times, 1):
        yield _measured(f"{where}: time {place}", seconds, "s")
    yield _measured(f"{where}: off by", error, "mean of |fitted / measured - 1|")
    if read is not None:
        inputs = {"bandwidth_bytes_per_s": constants["bandwidth_bytes_per_s"], "read_bandwidth_bytes_per_s": read}
        formula = "bandwidth_bytes_per_s / read_bandwidth_bytes_per_s"
        yield figure_of(f"{where}: share of the read bandwidth", formula, inputs, "share", MEASURED)


def _rate(where: str, constants: Mapping[str, float]) -> Iterator[Figure]:
    for name, value in constants.items():
        unit = "s" if name.endswith("_s") and "per" not in name else "bytes/s"
        yield figure_of(f"{where}: {name}", "fitted", {"fitted": value}, unit, FITTED)


def _measured(name: str, value: float, unit: str) -> Figure:
    return figure_of(name, "measured", {"measured": value}, unit, MEASURED)
