"""What every step's report has: its operators in rows, and its intensity in parts."""

from collections.abc import Sequence

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain, total
from kvcalc.counting.arrays import single
from kvcalc.counting.work import Operator
from kvcalc.formulas import step
from kvcalc.results.base import Figure
from kvcalc.results.step import Intensity, OperatorRow
from kvcalc.specs.base import replace
from kvcalc.timing.estimate import OperatorTime
from kvcalc.timing.passes import Pass
from kvcalc.timing.roofline import operator_bound, operator_limit

BOUND_SOURCE = "Williams, Waterman and Patterson 2009 (roofline), of each operator"
ESTIMATE_SOURCE = "constants measured for each kind of kernel: docs/explanation/time.md"


def rows_of(deployed: Deployed, at: Pass) -> tuple[OperatorRow, ...]:
    """Every operator; last, for a real engine, what the engine itself adds."""
    if at.replica.ideal:
        return with_shares(operator_rows(deployed, at.operators, None))
    engine = OperatorRow(
        name="engine", count=1, bytes=0, flops=0, time_s=0, limit="engine", estimate_s=float(at.engine_s)
    )
    return with_shares((*operator_rows(deployed, at.operators, at.operator_times), engine))


def operator_rows(
    deployed: Deployed, operators: Sequence[Operator], times: Sequence[OperatorTime] | None
) -> tuple[OperatorRow, ...]:
    """Every operator with its bound and its estimate; `times` is None where nothing but the bound is meant.

    Calls of one name in layers of different kinds are one row; its limit is that of the longer.
    """
    estimates = [None] * len(operators) if times is None else [float(one.time_s) for one in times]
    rows = (
        OperatorRow(
            name=one.name.rpartition(".")[2],
            count=one.count,
            bytes=single(one.count * one.bytes),
            flops=single(one.count * one.flops),
            time_s=float(operator_bound(one, deployed.gpu, deployed.gpus_per_node)),
            limit=operator_limit(one, deployed.gpu),
            estimate_s=estimate,
        )
        for one, estimate in zip(operators, estimates, strict=True)
    )
    merged: dict[str, OperatorRow] = {}
    for row in rows:
        same = merged.get(row.name)
        merged[row.name] = row if same is None else _together(same, row)
    return tuple(merged.values())


def with_shares(rows: Sequence[OperatorRow]) -> tuple[OperatorRow, ...]:
    """Each row with its share of the time of all."""
    whole = sum(row.best_s for row in rows) or 1.0
    return tuple(replace(row, share=row.best_s / whole) for row in rows)


def _together(a: OperatorRow, b: OperatorRow) -> OperatorRow:
    estimate = None if a.estimate_s is None or b.estimate_s is None else a.estimate_s + b.estimate_s
    return OperatorRow(
        name=a.name,
        count=a.count + b.count,
        bytes=a.bytes + b.bytes,
        flops=a.flops + b.flops,
        time_s=a.time_s + b.time_s,
        limit=(a if a.best_s >= b.best_s else b).limit,
        estimate_s=estimate,
    )


def intensity(flops: float, attention_flops: float, weight_bytes: float, cache_bytes: float) -> Intensity:
    """FLOPs per byte of weights and of cache: attention works on the cache, all the rest on the weights."""
    weight_share = weight_bytes / (weight_bytes + cache_bytes)
    return Intensity(
        weight_share=weight_share,
        cache_share=1 - weight_share,
        weight_flop_per_byte=(flops - attention_flops) / weight_bytes,
        cache_flop_per_byte=attention_flops / cache_bytes if cache_bytes else 0.0,
    )


def time_figure(name: str, deployed: Deployed, one: Pass) -> Figure:
    """The working of a pass's time: with `--engine ideal` its bound, else the sum over operators and the engine."""
    if one.replica.ideal:
        return explain(step.roofline_time, name, memory_time_s=single(one.memory_time_s),
                       compute_time_s=single(one.compute_time_s))  # fmt: skip
    parts = {row.name: row.estimate_s or 0.0 for row in rows_of(deployed, one)}
    rest = single(one.time_s) - sum(parts.values())
    if abs(rest) > 1e-9 * one.time_s:  # launches of prompts' layers, and what overlaps
        parts["launches of prompts"] = rest
    return total(name, parts, "s", ESTIMATE_SOURCE)


def sums(rows: Sequence[OperatorRow]) -> tuple[Figure, ...]:
    """The working of the bound per operator and of the estimate: each is the sum of its column."""
    bounds = total("bound per operator", {row.name: row.time_s for row in rows if row.time_s}, "s", BOUND_SOURCE)
    times = {row.name: row.estimate_s for row in rows if row.estimate_s}
    return tuple(one for one in (bounds, total("estimate", times, "s", ESTIMATE_SOURCE)) if one.inputs)
