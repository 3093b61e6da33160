"""What `kvcalc simulate` shows."""

from typing import Any

from kvcalc.render.page import Block, Facts, Page, Plot, Series, Table, Text, alike, assumed
from kvcalc.results.base import Range, engine_name
from kvcalc.results.compare import SHORT
from kvcalc.results.simulate import (
    Percentiles,
    SimulateReport,
    SimulateResult,
    SweepPoint,
    SweepReport,
    Value,
)
from kvcalc.units import format_count, format_seconds

COLUMNS = ("mean", "p50", "p90", "p95", "p99", "max")


def page(report: SimulateReport) -> Page:
    """The verdict, latencies, targets, what is in use, and the run over time."""
    result = report.result
    return Page(
        title=f"{format_count(result.requests)} requests to {result.model} on {result.gpus} × {result.gpu}, "
        f"{engine_name(result.engine)}",
        verdict=_verdict(result),
        good=result.verdict == "stable",
        blocks=(
            *_highest(result),
            _traffic(result),
            _latencies(result),
            *_targets(result),
            *_calibrated(result),
            *_sharing(result),
            _use(result),
            *_timeline(result),
        ),
        notes=assumed(report),
    )


def _verdict(result: SimulateResult) -> str:
    named = dict.fromkeys((result.verdict, result.verdict_low, result.verdict_high))
    return result.verdict if len(named) == 1 else " or ".join(named)


def _traffic(result: SimulateResult) -> Facts:
    rows = [
        ("requests", format_count(result.requests), _lengths(result)),
        ("took", _seconds(result.duration_s), f"{_number(result.requests_per_s)} requests/s"),
        (
            "output",
            f"{_count(result.output_tokens_per_s)}/s",
            f"tokens; {_count(result.total_tokens_per_s)}/s with prompts",
        ),
    ]
    if result.request_rate is not None:
        rows.insert(1, ("arrive", f"{result.request_rate:.3g}/s", f"load {_number(result.load)} of "
                        f"{_number(result.capacity_requests_per_s)}/s that can be served"))  # fmt: skip
    if result.refused:
        rows.append(("refused", format_count(result.refused), "no tokens, or above max_model_len"))
    return Facts(title="Traffic", rows=tuple(rows))


def _lengths(result: SimulateResult) -> str:
    ran = max(1, result.requests - result.refused)
    return f"of {result.input_tokens / ran:,.0f} tokens in, {result.output_tokens / ran:,.0f} out on average"


def _latencies(result: SimulateResult) -> Table:
    rows = [
        (name, *(_seconds(getattr(found, column), short=True) for column in COLUMNS))
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
            f"p{target.percentile:g} {_seconds(target.have_s, short=True)}; kept by {_share(target.met_share)}",
        )
        for target in result.targets
    ]
    rows.append(("goodput", f"{_number(result.goodput_requests_per_s)}/s", "requests that keep every target"))
    return (Facts(title="Targets", rows=tuple(rows)),)


def _calibrated(result: SimulateResult) -> tuple[Block, ...]:
    found = result.calibration
    if found is None:
        return ()
    rows = [
        (name, *(_seconds(getattr(values, column), short=True) for column in COLUMNS))
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
    rows = (
        ("prompt, unshared", format_count(found.blocks_unshared), f"blocks of {found.block_size} tokens"),
        ("prompt, shared", format_count(found.blocks_shared), ""),
        ("after one token", format_count(found.blocks_after_first_tokens), first),
        ("at most", format_count(found.most_blocks), f"of {format_count(found.most_blocks_unshared)} without sharing"),
    )
    title = f"{found.sequences} {found.kind} of a prompt of {format_count(found.prompt_tokens)} tokens"
    return (Facts(title=title, rows=rows),)


def _use(result: SimulateResult) -> Facts:
    filled = _share(result.block_fill)
    endless = "" if result.endless_hit_rate is None else f"; an endless cache would hit {result.endless_hit_rate:.1%}"
    hits = f"of prompt tokens{endless}"
    rows = [
        ("slots", _share(result.slot_use), f"of {format_count(result.max_num_seqs)}"),
        ("blocks", _share(result.block_use), f"of {format_count(result.num_blocks)}; {filled} filled"),
        ("budget", _share(result.budget_use), "of the tokens that steps could compute"),
        ("busy", _share(result.busy_share), f"{format_count(result.steps)} steps"),
        ("somebody waits", _share(result.queued_share), "of the time"),
        ("preemptions", _count(result.preemptions), f"{_count(result.recomputed_tokens)} tokens computed again"),
    ]  # fmt: skip
    if result.waste is not None:
        waste = result.waste
        kinds = ((waste.reserved, "reserved"), (waste.internal, "never used"), (waste.external, "free"))
        rows.append(("cache, full", f"{waste.tokens:.1%}", "tokens; " + ", ".join(f"{s:.1%} {n}" for s, n in kinds)))
    if result.prefix_hit_rate is not None:
        rows.append(("prefix hits", _share(result.prefix_hit_rate), hits))
    if result.offload is not None:
        more = result.offload
        took = format_seconds(more.load_s_per_request)
        loads = f"with the host's memory; {more.loaded_tokens_per_request:,.0f} tokens a request come in {took}"
        rows.append(("prefix hits", _share(more.prefix_hit_rate), loads))
    return Facts(title="In use", rows=tuple(rows))


def _timeline(result: SimulateResult) -> tuple[Block, ...]:
    if len(result.timeline) < 3:
        return ()
    times = tuple(moment.time_s for moment in result.timeline)
    running = Series("running", times, tuple(float(moment.running) for moment in result.timeline))
    waiting = Series("waiting", times, tuple(float(moment.waiting) for moment in result.timeline))
    blocks = Series("blocks", times, tuple(float(moment.blocks) for moment in result.timeline))
    return (
        Plot((running, waiting), "seconds", "requests", "Requests over time"),
        Plot((blocks,), "seconds", f"blocks, of {format_count(result.num_blocks)}", "The pool over time"),
    )


def _best(value: Value) -> float | None:
    return value.value if isinstance(value, Range) else value


def _seconds(value: Value, short: bool = False) -> str:
    best = _best(value)
    if best is None:
        return "-"
    if short or not isinstance(value, Range):
        return format_seconds(best)
    return f"{format_seconds(best)} ({format_seconds(value.low)} to {format_seconds(value.high)})"


def _count(value: Value) -> str:
    best = _best(value)
    return "-" if best is None else format_count(best)


def _number(value: Value) -> str:
    best = _best(value)
    if best is None:
        return "-"
    return f"{best:.3g}" if not isinstance(value, Range) else f"{best:.3g} ({value.low:.3g} to {value.high:.3g})"


def _share(value: Value) -> str:
    best = _best(value)
    return "-" if best is None else f"{best:.1%}"


def rows(report: SimulateReport) -> list[dict[str, Any]]:
    """For CSV: one line a latency."""
    result = report.result
    found = []
    for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
        values = getattr(result, name)
        found.append({"figure": name, **{column: _best(getattr(values, column)) for column in COLUMNS}})
    return found


def sweep_page(report: SweepReport) -> Page:
    """One row a simulation, and goodput against rate where that was swept."""
    points = report.result.points
    first = points[0].result
    names = tuple(points[0].values)
    shown = tuple(SHORT.get(name, name).replace("-", "-\n") for name in names)
    columns = (*shown, "verdict", "TTFT\np50", "p99", "TPOT\np50", "p99", "tokens/s", "goodput/s")
    rows = tuple(_sweep_row(point) for point in points)
    spare = (*alike(rows, range(len(names), len(columns))), len(names) + 3)
    return Page(
        title=f"{format_count(first.requests)} requests to {first.model}, {len(points)} ways",
        blocks=(Table(columns=columns, rows=rows, spare=spare), *_goodput_plot(points)),
        notes=assumed(report),
    )


def _sweep_row(point: SweepPoint) -> tuple[str, ...]:
    found = point.result
    latencies = (found.ttft_s.p50, found.ttft_s.p99, found.tpot_s.p50, found.tpot_s.p99)
    good = _best(found.goodput_requests_per_s)
    return (
        *point.values.values(),
        _verdict(found),
        *(_seconds(value, short=True) for value in latencies),
        _count(found.output_tokens_per_s),
        "-" if good is None else f"{good:.3g}",
    )


def _goodput_plot(points: tuple[SweepPoint, ...]) -> tuple[Block, ...]:
    """By rate; one line for each combination of the other flags."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        if "request-rate" not in point.values:
            return ()
        label = ", ".join(f"{name} {value}" for name, value in point.values.items() if name != "request-rate")
        good = _best(point.result.goodput_requests_per_s) or 0.0
        lines.setdefault(label, []).append((float(point.values["request-rate"]), good))
    series = tuple(Series(label, *zip(*sorted(found), strict=True)) for label, found in lines.items())
    return (Plot(series, "requests/s that arrive", "requests/s that keep every target", "Goodput"),)


def sweep_rows(report: SweepReport) -> list[dict[str, Any]]:
    """For CSV: one line a simulation, latencies by percentile."""
    found = []
    for point in report.result.points:
        row: dict[str, Any] = dict(point.values)
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
            row |= {
                f"{name[:-2]}_{column}_s": _best(getattr(getattr(point.result, name), column)) for column in COLUMNS
            }
        for name in ("output_tokens_per_s", "goodput_requests_per_s", "load", "preemptions", "prefix_hit_rate"):
            row[name] = _best(getattr(point.result, name))
        found.append(row | {"verdict": point.result.verdict})
    return found


def _highest(result: SimulateResult) -> tuple[Block, ...]:
    found = result.highest_rate
    if found is None:
        return ()
    rates = tuple(one.request_rate for one in found.points)
    goodput = Series("goodput", rates, tuple(one.goodput_requests_per_s for one in found.points))
    return (
        Facts(rows=(("highest rate", f"{_number(found.request_rate)} requests/s", "at which every target is kept"),)),
        Plot((goodput,), "requests/s that arrive", "requests/s that keep every target", "Goodput"),
    )
