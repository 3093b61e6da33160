"""What `kvcalc compare` shows: only what varies becomes a column."""

from typing import Any

from kvcalc.render.page import Block, Page, Table, Text, assumed
from kvcalc.reports.compare import CompareReport
from kvcalc.units import format_bytes, format_count, format_seconds, format_usd


def page(report: CompareReport) -> Page:
    result = report.result
    blocks: list[Block] = [_table(report)]
    if result.summary:
        blocks.append(Text(lines=result.summary))
    return Page(
        title="Compared" + (f" by {', '.join(result.varying)}" if result.varying else ""),
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _table(report: CompareReport) -> Table:
    varying = report.result.varying or ("model",)
    columns = (*varying, "pool", "tokens", "batch", "step", "tokens/s", "$ per M", "")
    rows = []
    for row in report.result.rows:
        names = tuple(str(row["varies"].get(name, row.get(name, ""))) for name in varying)
        rows.append((*names, *_figures(row)))
    left = frozenset({0, len(columns) - 1})
    return Table(columns=columns, rows=tuple(rows), left=left)


def _figures(row: dict[str, Any]) -> tuple[str, ...]:
    if row["error"] is not None:
        return ("–", "–", "–", "–", "–", "–", f"not possible: {row['error']}")
    estimate, bound = row["estimate"], row["bound"]
    step = estimate["step_time_s"]["value"] if estimate else bound["step_time_s"] if bound else None
    speed = estimate["output_tokens_per_s"]["value"] if estimate else bound["output_tokens_per_s"] if bound else None
    costs = estimate["usd_per_million_output_tokens"] if estimate else None
    cost = costs["value"] if costs else bound["usd_per_million_output_tokens"] if bound else None
    pool, tokens, batch = row["kv_pool_bytes_per_gpu"], row["kv_cache_size_tokens"], row["max_batch"]
    return (
        "–" if pool is None else format_bytes(pool, 1),
        "–" if tokens is None else format_count(tokens),
        "–" if batch is None else format_count(batch),
        "–" if step is None else format_seconds(step),
        "–" if speed is None else format_count(speed),
        "–" if cost is None else format_usd(cost),
        "" if row["fits"] else "does not fit",
    )


def rows(report: CompareReport) -> list[dict[str, Any]]:
    """For CSV: what varies and the figures."""
    return [
        {**row["varies"], **{k: v for k, v in row.items() if k != "varies" and k not in row["varies"]}}
        for row in report.result.rows
    ]
