"""A server that is kept busy, as every page shows it."""

from kvcalc.render.page import Facts
from kvcalc.results.base import Range
from kvcalc.results.performance import Serving, TokenPrices
from kvcalc.units import format_count, format_seconds, format_things, format_usd


def serving_facts(serving: Serving, replicas: int, how: str = "") -> Facts:
    """Latencies, throughput and cost of a closed loop; `how` it is served, for the title."""
    rows = [
        ("first token", format_seconds(serving.ttft_s.value), spread_of(serving.ttft_s)),
        ("alone", format_seconds(serving.ttft_alone_s.value), f"nobody else there; {spread_of(serving.ttft_alone_s)}"),
    ]
    if serving.tpot_s is not None:
        rows.append(("per output token", format_seconds(serving.tpot_s.value), spread_of(serving.tpot_s)))
    total = f"of output; {format_count(serving.total_tokens_per_s)} with prompts"
    rows.append(("throughput", f"{format_count(serving.output_tokens_per_s.value)} tokens/s", total))
    cost, kinds = serving.usd_per_million_output_tokens, serving.usd_per_million_tokens
    if cost is not None:
        low, high = format_usd(cost.low), format_usd(cost.high)
        rows.append(("cost", f"{format_usd(cost.value)} per M output", f"prompts included; {low} to {high}"))
    if kinds is not None:
        rows.append(("  the same bill", by_kind(kinds), "per M, by the time each takes"))
    return Facts(title=_title(serving, replicas, how), rows=tuple(rows))


def by_kind(kinds: TokenPrices) -> str:
    """A bill split by kind of token."""
    cached = "" if kinds.cached_input is None else f"{format_usd(kinds.cached_input)} cached, "
    return f"{format_usd(kinds.input)} in, {cached}{format_usd(kinds.output)} out"


def _title(serving: Serving, replicas: int, how: str) -> str:
    clients = format_things(serving.concurrency, "client")
    if replicas > 1:
        clients += f" a replica, {format_count(replicas * serving.concurrency)} in all"
    waiting = f", {format_count(serving.waiting)} waiting" if serving.waiting else ""
    lengths = f"{format_count(serving.input_len)} tokens in, {format_count(serving.output_len)} out"
    hit = f" ({format_count(serving.prefix_hit)} cached)" if serving.prefix_hit else ""
    return f"Serving {clients}{waiting}{how and f' {how}'}: {lengths}{hit}"


def spread_of(value: Range) -> str:
    """The ends of a range of times."""
    return f"{format_seconds(value.low)} to {format_seconds(value.high)}"
