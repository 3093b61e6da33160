"""What `kvcalc simulate` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Plot, Series, Table, Text, assumed
from kvcalc.render.pages.ranged import best, count, number, seconds, share
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.base import Range, engine_name
from kvcalc.results.simulate import (
    Percentiles,
    SimulateReport,
    SimulateResult,
)
from kvcalc.units import format_count, format_seconds

MOST_TABLES, LONGEST_TABLE = 8, 16  # block tables that a page shows
COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")


def page(report: SimulateReport) -> Page:
    """The verdict, latencies, targets, what is in use, and the run over time."""
    result = report.result
    return Page(
        title=f"{format_count(result.requests)} requests to {result.model} on {result.gpus} × {result.gpu}, "
        f"{engine_name(result.engine)}",
        verdict=_said(result),
        good=result.verdict == "stable" and is_good(result.fit),
        blocks=()
        if result.verdict is None
        else (
            *_highest(result),
            _traffic(result),
            _latencies(result),
            *_by_priority(result),
            *_targets(result),
            *_calibrated(result),
            *_sharing(result),
            _use(result),
            *_timeline(result),
        ),
        notes=assumed(report),
    )


def verdict(result: SimulateResult) -> str:
    """One word, or two where the ends of the range disagree; where nothing runs, that it does not fit."""
    named = dict.fromkeys((result.verdict, result.verdict_low, result.verdict_high))
    return " or ".join(name or "does not fit" for name in named)


def _said(result: SimulateResult) -> str:
    """At the top: how the requests fare, and whether the deployment fits where that is not sure."""
    fit = verdict_words(result.fit, result.reason)
    if result.verdict is None:
        return fit
    return verdict(result) if result.fits else f"{verdict(result)}, {fit}"


def _traffic(result: SimulateResult) -> Facts:
    rows = [
        ("requests", format_count(result.requests), _lengths(result)),
        ("took", seconds(result.duration_s), f"{number(result.requests_per_s)} requests/s"),
        (
            "output",
            f"{count(result.output_tokens_per_s)}/s",
            f"tokens; {count(result.total_tokens_per_s)}/s with prompts",
        ),
    ]
    if result.clients is not None:
        rows.insert(1, ("clients", format_count(result.clients), "each asks again when it is answered"))
    if result.request_rate is not None:
        rows.insert(1, ("arrive", f"{result.request_rate:.3g}/s", f"load {number(result.load)} of "
                        f"{number(result.capacity_requests_per_s)}/s that can be served"))  # fmt: skip
    if result.refused:
        rows.append(("refused", format_count(result.refused), "no tokens, or above max_model_len"))
    return Facts(title="Traffic", rows=tuple(rows))


def _lengths(result: SimulateResult) -> str:
    ran = max(1, result.requests - result.refused)
    return f"of {result.input_tokens / ran:,.0f} tokens in, {result.output_tokens / ran:,.0f} out on average"


def _latencies(result: SimulateResult) -> Table:
    rows = [
        (name, *(seconds(getattr(found, column), short=True) for column in COLUMNS))
        for name, found in (
            ("TTFT", result.ttft_s),
            ("TPOT", result.tpot_s),
            ("between tokens", result.itl_s),
            ("end to end", result.e2e_s),
        )
    ]
    for name, end in (("low", "low"), ("high", "high")):
        ranged = [(f"{what}, {name}", found) for what, found in (("TTFT", result.ttft_s), ("TPOT", result.tpot_s))]
        rows += [row for what, found in ranged if (row := _end_row(what, found, end))]
    return Table(title="Latency", columns=("", *COLUMNS), rows=tuple(rows))


def _end_row(what: str, found: Percentiles, end: str) -> tuple[str, ...] | None:
    values = [getattr(found, column) for column in COLUMNS]
    if not all(isinstance(value, Range) for value in values):
        return None
    return (what, *(format_seconds(getattr(value, end)) for value in values))


def _targets(result: SimulateResult) -> tuple[Block, ...]:
    if not result.targets:
        return ()
    rows = [
        (
            target.name.upper(),
            format_seconds(target.limit_s),
            f"p{target.percentile:g} {seconds(target.have_s, short=True)}; kept by {share(target.met_share)}",
        )
        for target in result.targets
    ]
    rows.append(("goodput", f"{number(result.goodput_requests_per_s)}/s", "requests that keep every target"))
    return (Facts(title="Targets", rows=tuple(rows)),)


def _calibrated(result: SimulateResult) -> tuple[Block, ...]:
    found = result.calibration
    if found is None:
        return ()
    rows = [
        (name, *(seconds(getattr(values, column), short=True) for column in COLUMNS))
        for name, values in (("TTFT", found.ttft_s), ("TPOT", found.tpot_s), ("end to end", found.e2e_s))
    ]
    lines = (
        f"step times × {found.factor:.3f}, so that {format_count(found.requests)} measured requests have their mean "
        f"TPOT of {format_seconds(found.measured_tpot_s)} (uncalibrated {format_seconds(found.simulated_tpot_s)})",
        f"of the measured requests, TTFT is then off by {found.error_after['ttft_mean']:+.1%} on average and "
        f"{found.error_after['ttft_p99']:+.1%} at p99 (before {found.error_before['ttft_mean']:+.1%}, "
        f"{found.error_before['ttft_p99']:+.1%})",
    )
    return Table(title="Latency, calibrated", columns=("", *COLUMNS), rows=tuple(rows)), Text(lines=lines)


def _sharing(result: SimulateResult) -> tuple[Block, ...]:
    found = result.sharing
    if found is None:
        return ()
    first = f"{found.copies_on_write} blocks were copied when written"
    rows: tuple[tuple[str, str, str], ...] = (
        ("prompt, unshared", format_count(found.blocks_unshared), f"blocks of {found.block_size} tokens"),
        ("prompt, shared", format_count(found.blocks_shared), ""),
        ("after one token", format_count(found.blocks_after_first_tokens), first),
        ("at most", format_count(found.most_blocks), f"of {format_count(found.most_blocks_unshared)} without sharing"),
    )
    title = f"{found.sequences} {found.kind} of a prompt of {format_count(found.prompt_tokens)} tokens"
    if len(found.tables) <= MOST_TABLES and max(map(len, found.tables), default=0) <= LONGEST_TABLE:
        tables = [(f"table of {number}", " ".join(map(str, one)), "") for number, one in enumerate(found.tables)]
        held = " ".join(map(str, found.references))
        rows = (*rows, *tables, *([("held by", held, "sequences, block by block")] if tables else []))
    return (Facts(title=title, rows=rows),)


def _shares(result: SimulateResult) -> bool:
    """Whether blocks hold more tokens than they have slots, for several requests hold one."""
    return (best(result.block_fill) or 0) > 1


def _use(result: SimulateResult) -> Facts:
    filled = f"{share(result.block_fill)} filled" + (", shared ones once a request" if _shares(result) else "")
    endless = "" if result.endless_hit_rate is None else f"; an endless cache would hit {result.endless_hit_rate:.1%}"
    hits = f"of prompt tokens{endless}"
    rows = [
        ("slots", share(result.slot_use), f"of {format_count(result.max_num_seqs)}"),
        ("blocks", share(result.block_use), f"of {format_count(result.num_blocks)}; {filled}"),
        ("budget", share(result.budget_use), "of the tokens that steps could compute"),
        ("busy", share(result.busy_share), f"{format_count(result.steps)} steps"),
        ("somebody waits", share(result.queued_share), "of the time"),
        ("preemptions", count(result.preemptions), f"{count(result.recomputed_tokens)} tokens computed again"),
    ]  # fmt: skip
    if result.pool_full_s is not None:
        rows.append(("blocks run out", seconds(result.pool_full_s), "after the start, for the first time"))
    if result.waste is not None:
        waste = result.waste
        kinds = ((waste.reserved, "reserved"), (waste.internal, "never used"), (waste.external, "free"))
        rows.append(("cache, full", f"{waste.tokens:.1%}", "tokens; " + ", ".join(f"{s:.1%} {n}" for s, n in kinds)))
    if result.prefix_hit_rate is not None:
        rows.append(("prefix hits", share(result.prefix_hit_rate), hits))
    if result.offload is not None:
        more = result.offload
        took = format_seconds(more.load_s_per_request)
        loads = f"with the host's memory; {more.loaded_tokens_per_request:,.0f} tokens a request come in {took}"
        rows.append(("prefix hits", share(more.prefix_hit_rate), loads))
    return Facts(title="In use", rows=tuple(rows))


def _by_priority(result: SimulateResult) -> tuple[Block, ...]:
    rows = tuple(
        (f"{name}, {one.priority}", *(seconds(getattr(found, column), short=True) for column in COLUMNS))
        for one in result.by_priority
        for name, found in (("TTFT", one.ttft_s), ("TPOT", one.tpot_s), ("end to end", one.e2e_s))
    )
    return (Table(title="Latency, by priority", columns=("", *COLUMNS), rows=rows),) if rows else ()


def _timeline(result: SimulateResult) -> tuple[Block, ...]:
    if len(result.timeline) < 3:
        return ()
    times = tuple(moment.time_s for moment in result.timeline)
    running = Series("running", times, tuple(float(moment.running) for moment in result.timeline))
    waiting = Series("waiting", times, tuple(float(moment.waiting) for moment in result.timeline))
    blocks = Series("blocks", times, tuple(float(moment.blocks) for moment in result.timeline))
    return (
        Plot((running, waiting), "seconds", "requests", "Requests over time"),
        Plot((blocks, *_stopped(result)), "seconds", f"blocks, of {format_count(result.num_blocks)}",
             "The pool over time"),
    )  # fmt: skip


def _stopped(result: SimulateResult) -> tuple[Series, ...]:
    """A point wherever requests were stopped since the moment before, at the blocks that were held."""
    moments = result.timeline
    found = [now for now, before in zip(moments[1:], moments, strict=False) if now.preemptions > before.preemptions]
    if not found:
        return ()
    times, held = tuple(one.time_s for one in found), tuple(float(one.blocks) for one in found)
    return (Series("requests are stopped", times, held, dots=True),)


def rows(report: SimulateReport) -> list[dict[str, Any]]:
    """For CSV: one line a latency."""
    result = report.result
    found = []
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        values = getattr(result, name)
        found.append({"figure": name, **{column: best(getattr(values, column)) for column in COLUMNS}})
    return found


def _highest(result: SimulateResult) -> tuple[Block, ...]:
    found = result.highest_rate
    if found is None:
        return ()
    rates = tuple(one.request_rate for one in found.points)
    goodput = Series("goodput", rates, tuple(one.goodput_requests_per_s for one in found.points))
    return (
        Facts(rows=(("highest rate", f"{number(found.request_rate)} requests/s", "at which every target is kept"),)),
        Plot((goodput,), "requests/s that arrive", "requests/s that keep every target", "Goodput"),
    )
