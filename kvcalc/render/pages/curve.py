"""What `kvcalc curve` shows."""

from typing import Any

from kvcalc.render.page import Block, Page, Plot, Series, Table, Text, assumed
from kvcalc.results.curve import CurvePoint, CurveReport
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
    if any(point.usd_per_million_input_tokens is not None for point in result.points):
        blocks.append(_prompts(result.points))
    return Page(
        title=f"{result.model}: throughput against speed{_where(result.points)}",
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
    kind = "estimate" if any(point.estimate_s for point in result.points) else "bound"
    lines = []
    for one in result.under_tpot:
        best = "not even one sequence" if one.batch is None else f"a batch of {format_count(one.batch)}"
        lines.append(f"{one.gpu}, tp {one.tp}, context {format_count(one.context)}: {best}")
    return Text(title=f"At most {format_seconds(result.tpot_target_s or 0)} a token, by the {kind}", lines=tuple(lines))


def _prompts(points: tuple[CurvePoint, ...]) -> Text:
    """What prompts cost does not depend on the batch that decodes beside them."""
    costs = {f"{p.gpu}, tp {p.tp}": p.usd_per_million_input_tokens for p in points}
    lines = [f"{name}: {format_usd(usd)}" for name, usd in costs.items() if usd is not None]
    return Text(title="A million prompt tokens, for the time that they take", lines=tuple(lines))


def _curves(points: tuple[CurvePoint, ...], over: str) -> dict[str, list[CurvePoint]]:
    """One curve for each GPU, tp and whatever else does not vary along it."""
    curves: dict[str, list[CurvePoint]] = {}
    for point in points:
        held = f"context {format_count(point.context)}" if over == "batch" else f"batch {format_count(point.batch)}"
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
                x=tuple(p.output_tokens_per_s_per_user for p in points),
                y=tuple(p.output_tokens_per_s_per_gpu for p in points),
                marks=tuple(str(p.batch if result.over == "batch" else p.context) for p in points),
            )
            for label, points in curves.items()
        ),
    )


def _table(points: tuple[CurvePoint, ...]) -> Table:
    """What is the same in every row is no column."""
    estimated = any(p.estimate_s for p in points)
    columns = {
        "GPU": [p.gpu for p in points],
        "tp": [str(p.tp) for p in points],
        "context": [format_count(p.context) for p in points],
    }
    varying = {name: cells for name, cells in columns.items() if len(set(cells)) > 1}
    times = ("bound", "estimate") if estimated else ("bound",)
    return Table(
        columns=(*varying, "batch", *times, "tokens/s", "per user", "$/M", "fits"),
        left=frozenset({0} if "GPU" in varying else ()),
        rows=tuple((*first, *_row(p, estimated)) for *first, p in zip(*varying.values(), points, strict=True)),
    )


def _row(point: CurvePoint, estimated: bool) -> tuple[str, ...]:
    cost = point.usd_per_million_output_tokens
    estimate = "–" if point.estimate_s is None else format_seconds(point.estimate_s.value)
    return (
        format_count(point.batch),
        format_seconds(point.bound_s),
        *((estimate,) if estimated else ()),
        format_count(point.output_tokens_per_s),
        f"{point.output_tokens_per_s_per_user:,.1f}",
        "–" if cost is None else format_usd(cost),
        "yes" if point.fits else "no",
    )


def rows(report: CurveReport) -> list[dict[str, Any]]:
    """For CSV: one line a point."""
    return [data_of(point) for point in report.result.points]
