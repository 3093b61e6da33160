"""What `kvcalc size` shows where no GPU was named: all of them, ranked, and the first in full."""

from collections.abc import Iterator
from typing import Any

from kvcalc.render.page import Block, Page, Table, Text, assumed
from kvcalc.render.pages.size import figures, working
from kvcalc.results.base import engine_name
from kvcalc.results.data import data_of
from kvcalc.results.ranking import RankedGpu, RankingReport, RankingResult
from kvcalc.units import format_count, format_gigabytes, format_seconds, format_usd

MOST_NAMED = 12  # of what is too small


def page(report: RankingReport) -> Page:
    """The GPUs that fit in a table, the rest in a sentence, the first in full."""
    result = report.result
    fitting = sum(row.fits is True for row in result.ranking)
    many = f"{result.gpus} × " if result.gpus > 1 else ""
    engine = engine_name(result.engine, result.engine_version)
    return Page(
        title=f"{result.model} on {many}each of {len(result.ranking)} GPUs, {engine}",
        verdict=f"fits on {fitting or 'none'}",
        good=fitting > 0,
        blocks=(*_ranking(result), *figures(result, report.inputs)),
        notes=assumed(report),
        more=working(result),
    )


def _ranking(result: RankingResult) -> Iterator[Block]:
    """What fits in a table, the rest in a sentence; the first one follows in full."""
    ranking = result.ranking
    fitting = [row for row in ranking if row.fit != "does_not_fit"]
    served = any(row.ttft_s is not None for row in fitting)
    times = ("TTFT", "TPOT") if served else ("step",)
    priced = [row for row in fitting if row.usd_per_million_output_tokens is not None] or fitting
    if fitting:
        yield Table(
            title="The cheapest first" if priced[0].usd_per_million_output_tokens is not None else "The fastest first",
            columns=("GPU", "memory", f"sequences\nof {format_count(result.context)}", *times, "tokens/s", "$ per M"),
            rows=tuple(_ranked(row, served) for row in priced),
        )
    small = [row.gpu for row in ranking if row.fits is False and row.max_batch is not None]
    unknown = [row.gpu for row in ranking if row.fits is False and row.max_batch is None]
    maybe = [row.gpu for row in ranking if row.fits is None]
    unpriced = [row.gpu for row in fitting if row not in priced]
    lines = [f"Fit too, and have no list price, the fastest first: {', '.join(unpriced)}."] if unpriced else []
    lines += _too_small(small, result.gpus)
    lines += [f"May fit: {', '.join(maybe)}."] if maybe else []
    lines += [f"Not predicted, for memory is shared with the host: {', '.join(unknown)}."] if unknown else []
    if result.not_ranked:
        lines.append(
            f"{result.not_ranked} more in the catalog have no list price and are no server cards of today: name one "
            "with --gpu; `kvcalc gpus` lists them."
        )
    if lines:
        yield Text(lines=tuple(lines))
    yield Text(lines=(f"In full: {ranking[0].title}.",))


def _too_small(names: list[str], gpus: int) -> list[str]:
    """The largest of them, and that several together may do."""
    if not names:
        return []
    shown, more = names[:MOST_NAMED], len(names) - MOST_NAMED
    each = " alone" if gpus == 1 else f", {gpus} of each"
    others = f" and {more} smaller" if more > 0 else ""
    return [
        f"Too small{each}: {', '.join(shown)}{others}. More of them together: -tp, or `kvcalc plan` finds how many."
    ]


def _ranked(row: RankedGpu, served: bool) -> tuple[str, ...]:
    cost = row.usd_per_million_output_tokens
    return (
        row.gpu,
        format_gigabytes(row.memory_bytes),
        "no limit" if row.max_batch is None else format_count(row.max_batch),
        *((_time(row.ttft_s),) if served else ()),
        _time(row.tpot_s),
        "–" if row.output_tokens_per_s is None else format_count(row.output_tokens_per_s),
        "–" if cost is None else format_usd(cost),
    )


def _time(seconds: float | None) -> str:
    return "–" if seconds is None else format_seconds(seconds)


def rows(report: RankingReport) -> list[dict[str, Any]]:
    """For CSV: the ranking."""
    return [data_of(row) for row in report.result.ranking]
