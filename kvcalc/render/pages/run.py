"""What `kvcalc run` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Table, Text, all_assumed
from kvcalc.results.data import data_of
from kvcalc.results.run import RunPoint, RunReport, RunResult
from kvcalc.units import format_bytes, format_count, format_decimal_bytes, format_seconds, format_si


def page(report: RunReport) -> Page:
    result = report.result
    some = f", {result.layers} of {result.model_layers} layers" if result.layers < result.model_layers else ""
    return Page(
        title=f"{result.model}{some}, {result.dtype}, on {result.device}",
        verdict=_verdict(result),
        blocks=(_steps(result), _terms(result), *_whole(result), _facts(result), *_generated(result)),
        notes=all_assumed(report),
    )


def _verdict(result: RunResult) -> str:
    """How far off steps are, and single terms where they are further: errors of two can cancel in their sum."""
    found = f"off by {result.accuracy.mean_error:.0%} on average, {result.accuracy.worst_error:.0%} at worst"
    terms = [point for point in result.points if point.term != "step" and point.resolved]
    if not terms:
        return found
    worst = max(terms, key=lambda point: abs(point.ratio - 1))
    off = abs(worst.ratio - 1)
    return found if off <= result.accuracy.worst_error else f"{found}; its {worst.term} by up to {off:.0%}"


def _steps(result: RunResult) -> Block:
    return Table(
        title="Whole step: predicted and measured",
        columns=("batch", "context", "bound", "ceiling", "estimate", "measured", "off by", "of bound"),
        rows=tuple(
            (
                format_count(point.batch),
                format_count(point.context),
                format_seconds(point.bound_s),
                format_seconds(point.ceiling_s),
                format_seconds(point.estimate_s.value),
                format_seconds(point.measured_s) + ("" if point.quiet else " *"),
                f"{point.ratio - 1:+.0%}",
                f"{point.measured_s / point.bound_s:.2f} ×",
            )
            for point in result.points
            if point.term == "step"
        ),
    )


def _terms(result: RunResult) -> Block:
    """Each term from replays without it."""
    return Table(
        title="Term by term: what leaving it out saves",
        columns=("batch", "context", "term", "estimate", "measured", "off by", "read at", "of read"),
        left=frozenset({2}),
        rows=tuple(_term(point) for point in result.points if point.term != "step"),
    )


def _term(point: RunPoint) -> tuple[str, ...]:
    read = point.bandwidth_bytes_per_s
    return (
        format_count(point.batch),
        format_count(point.context),
        point.term,
        format_seconds(point.estimate_s.value),
        format_seconds(point.measured_s) if point.resolved else "in the noise",
        f"{point.ratio - 1:+.0%}" if point.resolved else "–",
        "–" if read is None else f"{format_decimal_bytes(read)}/s",
        "–" if point.bandwidth_share is None else f"{point.bandwidth_share:.0%}",
    )


def _whole(result: RunResult) -> tuple[Block, ...]:
    rows = tuple(
        (format_count(point.batch), format_count(point.context), format_seconds(point.full_model_s))
        for point in result.points
        if point.full_model_s is not None
    )
    if not rows:
        return ()
    return (
        Table(title=f"Scaled to all {result.model_layers} layers", columns=("batch", "context", "step"), rows=rows),
    )


def _facts(result: RunResult) -> Block:
    correct, memory = result.correct, result.memory
    same = memory.measured_bytes == memory.predicted_bytes
    rows = [
        (
            "outputs",
            f"{correct.max_rel_error:.1e}",
            f"off a dense float64 step, {correct.checked} compared; limit {correct.limit:.0e}",
        ),
        (
            "allocated",
            format_bytes(memory.measured_bytes),
            "as predicted" if same else f"predicted {format_bytes(memory.predicted_bytes)}",
        ),
        ("read bandwidth", f"{format_decimal_bytes(result.read_bandwidth_bytes_per_s)}/s", "measured"),
        ("matrix product", format_si(result.peak_flops, "FLOP/s"), "measured"),
        ("data sheet", "", result.sheet or "none: the bound is at measured rates"),
        ("calibrated", "", result.calibrated),
    ]
    return Facts(rows=(*rows, *_drift(result)))


def _drift(result: RunResult) -> tuple[tuple[str, str, str], ...]:
    """How the device has moved since it was calibrated, and how far off its estimates were without knowing that."""
    drifts = [point.drift for point in result.points if point.term == "step"]
    if all(drift == 1 for drift in drifts):
        return ()
    low, high = f"{min(drifts):.2f}", f"{max(drifts):.2f}"
    off = f"{result.accuracy.undrifted_mean_error:.0%}, at worst {result.accuracy.undrifted_worst_error:.0%}"
    return (
        (
            "drift since",
            f"{low} ×" if low == high else f"{low} to {high} ×",
            f"in the estimates, by benchmarks beside each point; as calibrated they are off by {off}",
        ),
    )


def _generated(result: RunResult) -> tuple[Block, ...]:
    if not result.generated:
        return ()
    lines = tuple(f"{_ids(one.prompt)} → {_ids(one.tokens)}" for one in result.generated)
    return (Text(title="Generated token ids", lines=lines),)


def _ids(tokens: tuple[int, ...]) -> str:
    return " ".join(map(str, tokens))


def rows(report: RunReport) -> list[dict[str, Any]]:
    """For CSV: one line a term of a point."""
    return [data_of(point) for point in report.result.points]
