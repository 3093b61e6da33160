"""What `kvcalc curve` shows."""

from typing import Any

from kvcalc.render.page import Block, Page, Plot, Series, Table, Target, Text, alike, assumed
from kvcalc.render.verdict import FIT_WORDS, is_good, verdict_words
from kvcalc.results.curve import CurvePoint, CurveReport, UnderTarget
from kvcalc.results.data import data_of
from kvcalc.units import format_count, format_seconds, format_usd


def page(report: CurveReport) -> Page:
    """The plot, and its points in a table."""
    result = report.result
    blocks: list[Block] = [_table(result.points)]
    if len(result.points) > 1:
        blocks.insert(0, plot(report)._replace(title=""))
    if result.tpot_target_s is not None:
        blocks.append(_under(report))
    return Page(
        title=f"{result.model}: throughput against speed{_where(result.points)}",
        verdict=verdict_words(result.fit, result.reason),
        good=is_good(result.fit),
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _where(points: tuple[CurvePoint, ...]) -> str:
    """What every point shares."""
    gpus, tps, contexts = ({getattr(p, name) for p in points} for name in ("gpu", "tp", "context"))
    shared = [gpus.pop()] if len(gpus) == 1 else []
    shared += [f"tp {tp}" for tp in tps if len(tps) == 1 and tp > 1]
    shared += [f"{format_count(context)} tokens each" for context in contexts if len(contexts) == 1]
    return f", {', '.join(shared)}" if shared else ""


def _under(report: CurveReport) -> Text:
    result = report.result
    served = any(point.serving for point in result.points)
    estimated = any(point.estimate_s for point in result.points)
    kind = "the estimate of serving" if served else "the estimate" if estimated else "the bound"
    lines = []
    for one in result.under_tpot:
        best = _best(one)
        lines.append(f"{one.gpu}, tp {one.tp}, context {format_count(one.context)}: {best}")
    target = format_seconds(result.tpot_target_s or 0)
    return Text(title=f"At most {target} a token, by {kind}", lines=tuple(lines))


def _best(one: UnderTarget) -> str:
    if one.concurrency is not None:
        return f"{format_count(one.concurrency)} clients"
    return "not even one sequence" if one.batch is None else f"a batch of {format_count(one.batch)}"


def _mark(point: CurvePoint, over: str) -> str:
    return str(point.context if over == "context" else point.concurrency or point.batch)


def _curves(points: tuple[CurvePoint, ...], over: str) -> dict[str, list[CurvePoint]]:
    """One curve for each GPU, tp and whatever else does not vary along it."""
    curves: dict[str, list[CurvePoint]] = {}
    for point in points:
        size = f"batch {point.batch:,}" if point.concurrency is None else f"{point.concurrency:,} clients"
        held = size if over == "context" else f"context {format_count(point.context)}"
        curves.setdefault(f"{point.gpu} tp {point.tp}, {held}", []).append(point)
    return curves


def plot(report: CurveReport) -> Plot:
    """Throughput per GPU against speed per user, a line for each curve."""
    result = report.result
    curves = _curves(result.points, result.over)
    return Plot(
        title=f"{result.model}",
        x_label="tokens/s per user",
        y_label="tokens/s per GPU",
        series=tuple(
            Series(
                label=label,
                x=tuple(p.output_tokens_per_s_per_user or 0.0 for p in points),
                y=tuple(p.output_tokens_per_s_per_gpu for p in points),
                marks=tuple(_mark(p, result.over) for p in points),
            )
            for label, points in curves.items()
        ),
        points="clients" if any(p.serving for p in result.points) else result.over,
        targets=() if result.tpot_target_s is None else (_target(result.tpot_target_s),),
    )


def _target(tpot_s: float) -> Target:
    return Target(f"{format_seconds(tpot_s)} a token", "x", 1 / tpot_s)


def pictures(report: CurveReport) -> tuple[Plot, ...]:
    """The plot with its target, and what a token costs along it."""
    result = report.result
    throughput = plot(report)._replace(title="Throughput against speed")
    if any(p.usd_per_million_output_tokens is None for p in result.points):
        return (throughput,)
    curves = _curves(result.points, result.over)
    cost = throughput._replace(
        title="Cost against speed",
        y_label="USD per million output tokens",
        log_y=True,
        series=tuple(
            one._replace(y=tuple(p.usd_per_million_output_tokens or 0.0 for p in points))
            for one, points in zip(throughput.series, curves.values(), strict=True)
        ),
    )
    return throughput, cost


def _table(points: tuple[CurvePoint, ...]) -> Table:
    """What is the same in every row is no column."""
    named = {
        "GPU": [p.gpu for p in points],
        "tp": [str(p.tp) for p in points],
        "context": [format_count(p.context) for p in points],
    }
    varying = {name: cells for name, cells in named.items() if len(set(cells)) > 1}
    served = any(p.serving for p in points)
    estimated = any(p.estimate_s for p in points)
    times = ("TTFT", "TPOT") if served else ("bound", "estimate") if estimated else ("bound",)
    size = "clients" if served else "batch"
    columns = (*varying, size, *times, "tokens/s", "per user", "$/M", "fits")
    rows = tuple((*first, *_row(p, estimated)) for *first, p in zip(*varying.values(), points, strict=True))
    return Table(
        columns=columns,
        left=frozenset({0} if "GPU" in varying else ()),
        rows=rows,
        spare=(*alike(rows, range(len(varying), len(columns))), columns.index("per user")),
    )


def _row(point: CurvePoint, estimated: bool) -> tuple[str, ...]:
    cost, user, serving = (
        point.usd_per_million_output_tokens,
        point.output_tokens_per_s_per_user,
        point.serving,
    )
    if serving is not None:
        times = [format_seconds(serving.ttft_s.value), "–" if point.tpot_s is None else format_seconds(point.tpot_s)]
    else:
        estimate = "–" if point.estimate_s is None else format_seconds(point.estimate_s.value)
        times = [format_seconds(point.bound_s), *([estimate] if estimated else [])]
    return (
        format_count(point.batch if point.concurrency is None else point.concurrency),
        *times,
        format_count(point.output_tokens_per_s),
        "–" if user is None else f"{user:,.1f}",
        "–" if cost is None else format_usd(cost),
        FIT_WORDS[point.fit],
    )


def rows(report: CurveReport) -> list[dict[str, Any]]:
    """For CSV: one line a point."""
    return [data_of(point) for point in report.result.points]
