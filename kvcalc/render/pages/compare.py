"""What `kvcalc compare` shows: only what varies becomes a column."""

from typing import Any

from kvcalc.render.page import Block, Page, Table, Text, alike, assumed, lettered, narrow
from kvcalc.render.pages.changes import changes
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.compare import SHORT, CompareReport
from kvcalc.units import format_count, format_gib, format_seconds, format_usd

LONG = 12  # characters of a name: longer ones are letters where rows have no room


def page(report: CompareReport) -> Page:
    """One row a combination, and the comparison in words."""
    result = report.result
    table = _table(report)
    letters = (
        {} if narrow(table) else lettered((cell for row in table.rows for cell in row[: len(result.varying)]), LONG)
    )
    blocks: list[Block] = [
        table._replace(rows=tuple(tuple(letters.get(cell, cell) for cell in row) for row in table.rows))
    ]
    reasons = tuple(dict.fromkeys(str(row["error"]) for row in result.rows if row["error"]))
    lines = (
        *(f"{letter}: {name}" for name, letter in letters.items()),
        *result.summary,
        *(f"Impossible: {reason}." for reason in reasons),
    )
    if lines:
        blocks.append(Text(lines=lines))
    blocks += changes(result.baseline, "row", _changed)
    return Page(
        title=_title(report.inputs["models"], result.varying),
        verdict="" if result.fits else verdict_words(result.fit, result.reason),
        good=is_good(result.fit),
        blocks=tuple(blocks),
        notes=assumed(report),
    )


def _changed(name: str, value: object) -> str:
    """A figure of a row in its own unit."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return {True: "yes", False: "no"}.get(value, "–") if isinstance(value, bool) else "–"
    if name in ("ttft_s", "tpot_s"):
        return format_seconds(value)
    return format_usd(value) if name.startswith("usd") else format_count(value)


def _title(models: list[str], varying: tuple[str, ...]) -> str:
    by = f" by {', '.join(SHORT.get(name, name) for name in varying)}" if varying else ""
    return f"{models[0]} compared{by}" if len(models) == 1 else f"Compared{by}"


def _table(report: CompareReport) -> Table:
    found = report.result.rows
    varying = report.result.varying or ("model",)
    # Models have maxima of their own: where nothing was asked, each row is at another context.
    contexts = {row["context"] for row in found if not row["error"]}
    shown = (*varying, "context") if len(contexts) > 1 and "context" not in varying else varying
    # Flags are long and their values short: a heading breaks at its hyphens.
    names = tuple(SHORT.get(name, name).replace("-", "-\n") for name in shown)
    served = any(_served(row) for row in found)
    held = ("tokens", "max\nbatch") if served else ("pool", "tokens", "max\nbatch")
    times = ("first\ntoken", "per\ntoken") if served else ("step",)
    columns = (*names, *held, *times, "tokens/s", "$ per M", "")
    cells = tuple((*(_shown(row, name) for name in shown), *_figures(row, served)) for row in found)
    return Table(
        columns=columns,
        rows=cells,
        left=frozenset({*range(len(varying)), len(columns) - 1}),
        spare=_spare(cells, len(names), len(held)),
    )


def _spare(rows: tuple[tuple[str, ...], ...], named: int, held: int) -> tuple[int, ...]:
    """Figures that a narrow line can do without: those that are the same everywhere, then what of the cache fits."""
    same = alike(rows, range(named, len(rows[0]) - 1))
    return tuple(dict.fromkeys((*same, *range(named, named + held), named + held)))


def _shown(row: dict[str, Any], name: str) -> str:
    value = row["varies"].get(name, row.get(name, ""))
    if value is None:
        return "–"  # left to the engine
    return format_count(value) if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _served(row: dict[str, Any]) -> dict[str, Any] | None:
    """The figures of a busy server, where lengths were given."""
    serving = row.get("serving")
    return serving or None


def _figures(row: dict[str, Any], served: bool) -> tuple[str, ...]:
    if row["error"] is not None:
        return (*("–",) * 6, "impossible")
    pool, tokens, batch = row["kv_pool_bytes_per_gpu"], row["kv_cache_size_tokens"], row["max_batch"]
    held = (
        *(() if served else ("–" if pool is None else format_gib(pool, 1),)),
        "–" if tokens is None else format_count(tokens),
        "–" if batch is None else format_count(batch),
    )
    said = {"does_not_fit": "no fit", "may_fit": "may fit"}.get(row["fit"]) or ("" if row["estimate"] else "a bound")
    return (*held, *(_served_figures(row) if served else _step_figures(row)), said)


def _served_figures(row: dict[str, Any]) -> tuple[str, ...]:
    one = _served(row)
    if one is None:
        return ("–",) * 4
    cost = one["usd_per_million_output_tokens"]
    return (
        format_seconds(one["ttft_s"]["value"]),
        "–" if one["tpot_s"] is None else format_seconds(one["tpot_s"]["value"]),
        format_count(one["output_tokens_per_s"]["value"]),
        "–" if cost is None else format_usd(cost["value"]),
    )


def _step_figures(row: dict[str, Any]) -> tuple[str, ...]:
    estimate, bound = row["estimate"], row["bound"]
    if bound is None:
        return ("–",) * 3
    costs = estimate["usd_per_million_output_tokens"] if estimate else None
    cost = costs["value"] if costs else bound["usd_per_million_output_tokens"]
    step = estimate["step_time_s"]["value"] if estimate else bound["step_time_s"]
    speed = estimate["output_tokens_per_s"]["value"] if estimate else bound["output_tokens_per_s"]
    return (format_seconds(step), format_count(speed), "–" if cost is None else format_usd(cost))


def rows(report: CompareReport) -> list[dict[str, Any]]:
    """For CSV: what varies and the figures."""
    return [{name: value for name, value in row.items() if name != "varies"} for row in report.result.rows]
