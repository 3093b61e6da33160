"""What `kvcalc speculate` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Plot, Series, Table, Target, assumed
from kvcalc.render.pages.serving import serving_facts
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.base import Range, engine_name
from kvcalc.results.data import data_of
from kvcalc.results.speculate import SpeculateReport, SpeculateResult
from kvcalc.units import format_bytes, format_count, format_seconds, format_things, format_usd


def page(report: SpeculateReport) -> Page:
    """One round, by draft length, by batch, and where it stops."""
    result = report.result
    pays = f"{gained(result):.2f}×" if result.gamma else "does not pay"
    said = verdict_words(result.fit, result.reason)
    return Page(
        title=f"{result.model} with draft {result.draft} on {result.gpus} × {result.gpu}, {engine_name(result.engine)}",
        verdict=f"{pays}, {said}",
        good=gained(result) > 1 if result.fits else is_good(result.fit),
        blocks=_blocks(result),
        notes=assumed(report),
    )


def gained(result: SpeculateResult) -> float:
    """The speed-up alone."""
    return result.speedup.value if isinstance(result.speedup, Range) else result.speedup


def _with_range(result: SpeculateResult) -> str:
    found = result.speedup
    return f"{found.value:.2f}, {found.low:.2f} to {found.high:.2f}" if isinstance(found, Range) else f"{found:.2f}"


def _blocks(result: SpeculateResult) -> tuple[Block, ...]:
    served = () if result.serving is None else (serving_facts(result.serving, 1, "without drafts"),)
    return (_round(result), _by_gamma(result), _by_batch(result), _limits(result), *served)


def _round(result: SpeculateResult) -> Facts:
    accepted = f"{result.acceptance_rate:.3g}"
    how = f"falling by {result.decay:.3g} a position" if result.decay != 1 else "at every position"
    if result.acceptance:
        accepted, how = f"{result.acceptance_rate:.3g}", "mean of " + ", ".join(f"{a:g}" for a in result.acceptance)
    money, plain_money = result.usd_per_million_output_tokens, result.plain_usd_per_million_output_tokens
    cost = "" if money is None or plain_money is None else f", {format_usd(money)} per M ({format_usd(plain_money)})"
    rows = (
        ("acceptance", accepted, how),
        ("draft tokens", format_count(result.gamma), f"the best is {result.best_gamma}"),
        ("tokens per pass", f"{result.tokens_per_pass:.2f}", "accepted, and one more"),
        ("plain step", format_seconds(result.plain_step_s), ""),
        ("check", format_seconds(result.verify_s), f"{result.verify_cost_ratio:.2f} × the plain step"),
        ("draft", format_seconds(result.draft_s), f"each pass {result.draft_cost_ratio:.3f} × the plain step"),
        ("engine", format_seconds(result.engine_s), ""),
        ("speed-up", _with_range(result), f"{format_seconds(result.tpot_s)} a token"),
        (
            "throughput",
            f"{format_count(result.output_tokens_per_s)}/s",
            f"{format_count(result.plain_output_tokens_per_s)}/s without{cost}",
        ),
    )
    title = f"One round of {format_things(result.batch, 'sequence')} at {format_count(result.context)}"
    return Facts(title=title, rows=rows)


def _by_gamma(result: SpeculateResult) -> Table:
    return Table(
        title="By draft length",
        columns=("γ", "checked", "tokens per pass", "check", "draft", "speed-up"),
        rows=tuple(
            (
                str(row.gamma),
                format_count(row.drafted_tokens + 1),
                f"{row.tokens_per_pass:.2f}",
                format_seconds(row.verify_s),
                format_seconds(row.draft_s),
                f"{row.speedup:.2f}",
            )
            for row in result.by_gamma
        ),
    )


def _by_batch(result: SpeculateResult) -> Table:
    return Table(
        title=f"By batch, {max(1, result.gamma)} draft token{'s' if result.gamma > 1 else ''}",
        columns=("batch", "rows", "check", "a token", "plain", "speed-up", "best γ", "gives", ""),
        left=frozenset({8}),
        rows=tuple(
            (
                format_count(row.batch),
                format_count(row.verify_rows),
                f"{row.verify_cost_ratio:.2f} ×",
                format_seconds(row.tpot_s),
                format_seconds(row.plain_tpot_s),
                f"{row.speedup:.2f}",
                str(row.best_gamma),
                f"{row.best_speedup:.2f}",
                "" if row.fits else "no fit",
            )
            for row in result.by_batch
        ),
    )


def _limits(result: SpeculateResult) -> Facts:
    stops, pays, memory = result.stops_paying_at_batch, result.pays_from_acceptance, result.memory
    rows = [
        ("gains nothing", "never" if stops is None else f"from batch {format_count(stops)}", ""),
        ("pays from", "never" if pays is None else f"{pays:.2f}", "acceptance, at this batch and draft length"),
        (
            "draft's memory",
            format_bytes(memory.weight_bytes),
            f"weights per GPU, and {format_bytes(memory.cache_bytes_per_token)} of cache a token",
        ),
    ]
    if memory.max_batch is not None and memory.max_batch_without is not None:
        remark = f"sequences, {format_count(memory.max_batch_without)} without the draft"
        rows.append(("fit with it", format_count(memory.max_batch), remark))
    full = result.at_capacity
    if full is not None:
        remark = (
            f"{format_count(full.output_tokens_per_s)} tokens/s at {format_count(full.batch)} sequences, "
            f"{format_count(full.plain_output_tokens_per_s)} at {format_count(full.plain_batch)} without"
        )
        rows.append(("a full server", f"{full.gain:.2f} ×", remark))
    return Facts(title="Where it stops", rows=tuple(rows))


def pictures(report: SpeculateReport) -> tuple[Plot, ...]:
    """The speed-up over the draft length, and over the batch: above 1 it pays."""
    result = report.result
    even = Target("no gain", "y", 1.0)
    lengths = Series(
        "speed-up",
        tuple(float(row.gamma) for row in result.by_gamma),
        tuple(row.speedup for row in result.by_gamma),
        tuple(f"{row.speedup:.2f}" for row in result.by_gamma),
    )
    batches = tuple(float(row.batch) for row in result.by_batch)
    fixed = Series(
        f"γ = {max(1, result.gamma)}",
        batches,
        tuple(row.speedup for row in result.by_batch),
        tuple(f"{row.speedup:.2f}" for row in result.by_batch),
    )
    best = Series("the best γ of each batch", batches, tuple(row.best_speedup for row in result.by_batch))
    where = f"at {format_things(result.batch, 'sequence')} of {format_count(result.context)}"
    return (
        Plot((lengths,), "draft tokens of a pass, γ", "speed-up", f"Speed-up by draft length, {where}",
             points="speed-up", targets=(even,)),
        Plot((fixed, best), "sequences in the step", "speed-up", "Speed-up by batch", log_x=True,
             points="speed-up", targets=(even,)),
    )  # fmt: skip


def rows(report: SpeculateReport) -> list[dict[str, Any]]:
    """For CSV: one line a batch."""
    return [data_of(row) for row in report.result.by_batch]
