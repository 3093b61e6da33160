"""What `kvcalc plan` shows: the deployments in a table, and the first in full."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from kvcalc.render.command import started_by
from kvcalc.render.page import Block, Facts, Page, Table, Text, alike, assumed, lettered
from kvcalc.render.pages.serving import by_kind, spread_of
from kvcalc.render.verdict import is_good, verdict_words
from kvcalc.results.data import data_of
from kvcalc.results.plan import ApiComparison, Candidate, PlanReport, PlanResult
from kvcalc.units import format_count, format_seconds, format_things, format_usd

BINDS = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "answer", "memory": "memory", "max_num_seqs": "slots"}
PREFIXES, DRAFTS, TTFT, ROOM, BINDING = 4, 5, 7, 9, 10  # columns
LONG = 16  # characters of a machine's name that a column has room for
LEFT = (0, 1, 2, 3, 10)


def page(report: PlanReport) -> Page:
    """The cheapest first, those of the Pareto front marked; the first in full."""
    result = report.result
    if not result.candidates:
        said = verdict_words(result.fit, result.reason)
        return Page(title=_title(result), verdict=said, good=False, blocks=tuple(_words(result)), notes=assumed(report))
    return Page(
        title=_title(result),
        verdict=_verdict(result),
        good=is_good(result.fit) if result.met else False,
        blocks=(_table(result), *_words(result), *_first(result.candidates[0]), *_apart(result)),
        notes=assumed(report),
    )


def _verdict(result: PlanResult) -> str:
    """How many meet it, and whether the first fits where that is not sure."""
    said = f"{result.meeting} of {result.tried} deployments meet it" if result.met else "nothing meets it"
    return said if result.fits else f"{said}; the first {verdict_words(result.fit, result.reason)}"


def _title(result: PlanResult) -> str:
    load = f"{format_count(result.users)} users" if result.users else f"{result.request_rate or 0:.3g} requests/s"
    think = f" thinking {format_seconds(result.think_s)}" if result.think_s else ""
    lengths = f"{format_count(result.input_len)} in, {format_count(result.output_len)} out"
    names = {"ttft_s": "TTFT", "tpot_s": "TPOT", "e2e_s": "whole answer"}
    targets = ", ".join(f"{names[name]} ≤ {format_seconds(value)}" for name, value in result.targets.items() if value)
    kind = "mean" if result.percentile is None else f"p{result.percentile:g}"
    return f"{result.model}: {load}{think}, {lengths}" + (f", {kind} {targets}" if targets else "")


def _table(result: PlanResult) -> Table:
    """A deployment a line; what is the same of all of them is no column."""
    stored, kinds = _stored(result.candidates)
    short = _letters(result.candidates)
    columns = ("", "GPUs", "layout", stored, "prefixes", "drafts", "$/hour", "TTFT", "TPOT", "room", "binds")
    rows = tuple(_row(one, kind, short) for one, kind in zip(result.candidates, kinds, strict=True))
    same = alike(rows, range(PREFIXES, DRAFTS + 1)) or (() if len(rows) > 1 else (PREFIXES, DRAFTS))
    kept = [i for i in range(len(columns)) if any(row[i] for row in rows) and i not in same]
    spare = (*alike(rows, range(DRAFTS, BINDING)), TTFT, BINDING, ROOM)
    return Table(
        columns=tuple(columns[i] for i in kept),
        rows=tuple(tuple(row[i] for i in kept) for row in rows),
        left=frozenset(place for place, i in enumerate(kept) if i in LEFT),
        spare=tuple(kept.index(i) for i in dict.fromkeys(spare) if i in kept),
    )


def _stored(found: Sequence[Candidate]) -> tuple[str, list[str]]:
    """The column of what varies of weights and cache, in the order of the deployments; empty where neither does."""
    weights, caches = ({getattr(one, part) for one in found} for part in ("weights", "cache"))
    if len(weights) > 1 and len(caches) > 1:
        return "stored", [f"{_short(one.weights)}/{one.cache}" for one in found]
    if len(weights) > 1:
        return "weights", [_short(one.weights) for one in found]
    return "cache", [one.cache if len(caches) > 1 else "" for one in found]


def _prefixes(one: Candidate) -> str:
    return "off" if one.deployment.get("enable_prefix_caching") is False else "on"


def _bill(usd: float | None) -> str:
    """Of thousands no cents."""
    if usd is None:
        return "–"
    return format_usd(usd).partition(".")[0] if usd >= 1000 else format_usd(usd)


def _short(weights: str) -> str:
    """Without the blocks: `fp8, blocks of 128 × 128`."""
    return weights.partition(",")[0]


def _letters(found: Sequence[Candidate]) -> dict[str, str]:
    """A letter for each machine whose name is too long for a column, by the machine."""
    return lettered((one.deployment["gpu"] for one in found), LONG)


def _row(one: Candidate, stored: str, short: Mapping[str, str]) -> tuple[str, ...]:
    gpu = one.deployment["gpu"]
    return (
        "*" if one.pareto else "",
        f"{one.gpus} × {short.get(gpu, gpu)}",
        f"{one.replicas} × {one.layout}",
        stored,
        _prefixes(one),
        f"{one.drafts}" if one.drafts else "–",
        _bill(one.usd_per_hour),
        format_seconds(one.ttft_s.value),
        "–" if one.tpot_s is None else format_seconds(one.tpot_s.value),
        f"{one.headroom:.0%}",
        BINDS[one.binds],
    )


def _words(result: PlanResult) -> Iterator[Block]:
    lines = list(result.summary)
    titles = {one.deployment["gpu"]: one.gpu for one in result.candidates}
    lines += [f"{letter}: {name}, of {titles[name]}" for name, letter in _letters(result.candidates).items()]
    if result.candidates and _stored(result.candidates)[0] == "stored":
        lines.append("stored: weights/cache.")
    if any(one.pareto for one in result.candidates):
        means = "" if result.percentile is None else ", of the means"
        lines.append(
            f"* no other is both cheaper and faster for each user. room: more load until what binds breaks{means}."
        )
    if lines:
        yield Text(lines=tuple(lines))


def _first(one: Candidate) -> Iterator[Block]:
    title = f"The first: {one.replicas} × {one.gpu}, {one.layout}"
    yield Facts(title=title, rows=tuple(_facts(one)))
    if one.command is not None:
        yield started_by(one.command)
    yield Text(title="The same figures", lines=(one.size,))


def _apart(result: PlanResult) -> Iterator[Block]:
    """Prompts and decoding on replicas of their own, where that costs less."""
    if not result.separate_pools:
        return
    one = result.separate_pools[0]
    cost = "" if one.usd_per_hour is None else f", {format_usd(one.usd_per_hour)} an hour"
    yield Facts(
        title=f"Cheaper apart: {one.prefill_replicas} × {one.layout} for prompts, {one.decode_replicas} to decode",
        rows=(
            ("GPUs", f"{one.gpus} {one.deployment['gpu']}{cost}", f"{one.batch} sequences in each that decodes"),
            ("first token", format_seconds(one.ttft_s.value), f"its cache sent; {spread_of(one.ttft_s)}"),
            ("per output token", format_seconds(one.tpot_s.value), spread_of(one.tpot_s)),
        ),
    )
    for command in one.commands:
        yield started_by(command)._replace(title="")
    yield Text(title="Simulated by", lines=(one.simulate,))


def _facts(one: Candidate) -> Iterator[tuple[str, str, str]]:
    yield "cache", one.cache, f"weights in {one.weights}"
    if _prefixes(one) == "off":
        yield "prefix caching", "off", "no prompt is said to be cached, and states would take room"
    if one.drafts:
        yield (
            "drafts",
            format_things(one.drafts, "token"),
            f"a pass, of {one.deployment.get('draft', 'its own layers')}",
        )
    which = BINDS[one.binds] if one.simulated is None else f"the mean {BINDS[one.binds]}"
    more = f"a replica; {one.headroom:.0%} more until {which} breaks"
    yield "load", format_things(one.concurrency, "client"), more
    yield "first token", format_seconds(one.ttft_s.value), spread_of(one.ttft_s)
    if one.tpot_s is not None:
        yield "per output token", format_seconds(one.tpot_s.value), spread_of(one.tpot_s)
    yield "whole answer", format_seconds(one.e2e_s.value), spread_of(one.e2e_s)
    rate = f"{one.requests_per_s:.3g} requests/s"
    yield "throughput", f"{format_count(one.output_tokens_per_s.value)} tokens/s", rate
    yield from _simulated(one)
    yield from _money(one)
    if one.next_cheaper is not None:
        fewer = one.next_cheaper
        of = "" if fewer.percentile is None else f"p{fewer.percentile:g} "
        said = ", ".join(f"{of}{BINDS[miss.target]} by {miss.excess}" for miss in fewer.misses)
        yield f"with {format_things(fewer.replicas, 'replica')}", f"misses {said}" if said else "not enough room", ""


def _simulated(one: Candidate) -> Iterator[tuple[str, str, str]]:
    found = one.simulated
    if found is None:
        return
    times = (("TTFT", found.ttft_s), ("TPOT", found.tpot_s), ("answer", found.e2e_s))
    for name, value in times:
        if value is not None:
            yield f"p{found.percentile:g} {name}", format_seconds(value), "simulated"
    share = f"{found.met_share:.1%} of them keep the targets; seed {found.seed}"
    yield "goodput", f"{found.goodput_requests_per_s:.3g} requests/s", share


def _money(one: Candidate) -> Iterator[tuple[str, str, str]]:
    cost, price, money = one.usd_per_million_output_tokens, one.price, one.money
    if one.usd_per_hour is None or money is None or cost is None or price is None:
        return
    spread = f"{format_usd(cost.low)} to {format_usd(cost.high)}"
    yield "cost", f"{format_usd(cost.value)} per M output", f"prompts included; {spread}"
    yield "bill", f"{format_usd(one.usd_per_hour)} an hour", f"{_bill(money.usd_per_month)} a month of 730 hours"
    yield "price", f"{format_usd(price.median_usd_per_hour)} a GPU-hour", f"{price.source}, {price.date}"
    if money.usd_per_user_month is not None:
        yield "for each user", f"{format_usd(money.usd_per_user_month)} a month", ""
    if money.usd_per_million_tokens is not None:
        busy = "" if money.utilization == 1 else f", at {money.utilization:.0%} of the planned load"
        yield "by kind of token", by_kind(money.usd_per_million_tokens), f"per M{busy}"
    if money.api is not None:
        yield from _api(money.api)


def _api(api: ApiComparison) -> Iterator[tuple[str, str, str]]:
    word = "saved" if api.saved_usd_per_month >= 0 else "lost"
    yield "the API", f"{_bill(api.usd_per_month)} a month", f"{_bill(abs(api.saved_usd_per_month))} {word}"
    if api.break_even_requests_per_s is None:
        yield "break-even", "at no load", "a replica that is full costs more"
        return
    always = api.always_from_requests_per_s
    later = "" if always is None else f"for good from {always:.3g}"
    yield "break-even", f"{api.break_even_requests_per_s:.3g} requests/s", later


def rows(report: PlanReport) -> list[dict[str, Any]]:
    """For CSV: one line a deployment."""
    return [data_of(one) for one in report.result.candidates]
