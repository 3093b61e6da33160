"""What `kvcalc step` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Table, assumed
from kvcalc.render.pages.paging import paging_facts
from kvcalc.render.pages.serving import serving_facts
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.data import data_of
from kvcalc.results.step import OperatorRow, StepReport, StepResult
from kvcalc.units import format_bytes, format_count, format_seconds, format_short_bytes, format_si


def page(report: StepReport) -> Page:
    """The step as a whole, and operator by operator."""
    result = report.result
    return Page(
        title=f"One {_kind(result)} of {result.model} on {result.gpus} × {result.gpu}",
        verdict=verdict_words(result.fit, result.reason),
        good=is_good(result.fit),
        blocks=(
            *([serving_facts(result.serving, 1)] if result.serving else []),
            _whole(result),
            *_operators(result),
            _thresholds(result),
        ),
        notes=assumed(report),
        more=(paging_facts(result.paging),) if result.paging else (),
    )


def _kind(result: StepResult) -> str:
    return "decode step" if result.tokens_per_step is None else "step"


def _sequences(result: StepResult) -> str:
    cached = f"{format_count(result.context)} cached tokens"
    if result.tokens_per_step is None:
        return f"of {cached}"
    return f"{format_count(result.tokens_per_step)} tokens each, {cached}"


def _whole(result: StepResult) -> Block:
    shares = result.intensity
    rows = [
        ("sequences", format_count(result.batch), _sequences(result)),
        ("weights read", format_bytes(result.weight_bytes), f"{shares.weight_share:.0%} of the bytes"),
        ("cache read", format_bytes(result.cache_bytes), f"{shares.cache_share:.0%} of the bytes"),
        ("FLOPs", format_si(result.flops, "FLOP"), ""),
        (
            "intensity",
            f"{result.intensity_flop_per_byte:.1f} FLOP/B",
            f"weights {shares.weight_flop_per_byte:.1f}, cache {shares.cache_flop_per_byte:.1f}; "
            f"the ridge is {result.ridge_flop_per_byte:.0f}",
        ),
        ("memory time", format_seconds(result.memory_time_s), ""),
        ("compute time", format_seconds(result.compute_time_s), ""),
        ("bound", format_seconds(result.bound_s), f"at most {format_count(result.output_tokens_per_s)} tokens/s"),
    ]
    if result.operator_bound_s is not None:
        rows.append(("operator bound", format_seconds(result.operator_bound_s), "the sum of each operator's bound"))
    if result.estimate_s is not None:
        spread = f"{format_seconds(result.estimate_s.low)} to {format_seconds(result.estimate_s.high)}"
        rows.append(("estimate", format_seconds(result.estimate_s.value), spread))
    where = "Of one GPU" if result.stages == 1 else f"Of one GPU of each of {result.stages} stages together"
    return Facts(title=f"{where}, {result.limit}-bound", rows=tuple(rows))


def _operators(result: StepResult) -> tuple[Block, ...]:
    if not result.operators:
        return ()
    estimated = all(row.estimate_s is not None for row in result.operators)
    columns = ("operator", "bytes", "FLOPs", "bound", *(("estimate",) if estimated else ()), "share", "limit")
    return (
        Table(
            title="By operator",
            columns=columns,
            left=frozenset({0, len(columns) - 1}),
            rows=tuple(_operator(row, estimated) for row in result.operators),
        ),
    )


def _operator(row: OperatorRow, estimated: bool) -> tuple[str, ...]:
    worked = row.bytes > 0 or row.flops > 0
    return (
        row.name,
        format_short_bytes(row.bytes) if worked else "",
        format_si(row.flops, "") if worked else "",
        format_seconds(row.time_s) if row.time_s else "",
        *((format_seconds(row.best_s),) if estimated else ()),
        f"{row.share:.0%}",
        row.limit,
    )


def _thresholds(result: StepResult) -> Block:
    return Table(
        title="Rows from which a matmul is compute-bound",
        columns=("matmul", "D", "F", "rows"),
        rows=tuple(
            (one.name, format_count(one.d), format_count(one.f), "never" if one.rows is None else f"{one.rows:,.1f}")
            for one in result.matmul_thresholds
        ),
    )


def rows(report: StepReport) -> list[dict[str, Any]]:
    """For CSV: one line an operator."""
    return [data_of(row) for row in report.result.operators] or [data_of(report.result)]
