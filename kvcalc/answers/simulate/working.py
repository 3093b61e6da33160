"""The working behind a simulation: rates and shares from what was counted, percentiles from the requests themselves.

A latency is of one simulated request, so its formula is where it stands among all of them. The ends of a range are the
same requests with steps as quick and as slow as the estimate's range allows.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from kvcalc.answers.explain import figure_of, labelled
from kvcalc.answers.simulate.figures import PERCENTS, Latencies
from kvcalc.answers.simulate.machine import Simulated
from kvcalc.results.base import Figure, Range
from kvcalc.results.simulate import SimulateResult, Value
from kvcalc.simulator.metrics import BINS_PER_UNIT, gap_at

SOURCE = "docs/explanation/simulate.md: counted while the requests ran"
E = 2.718281828459045


def simulate_working(runs: Sequence[Latencies], replica: Simulated, result: SimulateResult) -> Iterator[Figure]:
    """Of each run: rates, latencies and use; then what arrives against what can be served."""
    for name, one in zip(("", "steps at their low", "steps at their high"), runs, strict=False):
        figures = (*_rates(one), *_latencies(one), *_use(one, replica))
        yield from labelled(name, figures) if name else figures
    yield from _load(result)
    for target in result.targets:
        yield from _kept(f"{target.name} kept by", target.met_share, {"requests": len(runs[0].requests)}, "requests")
    yield from _kept("goodput", result.goodput_requests_per_s, {"duration_s": runs[0].span_s}, "duration_s")


def _kept(name: str, found: Value, of: dict[str, float], unit: str) -> Iterator[Figure]:
    """Requests that keep a target, or all of them, over all requests or seconds; each end of the range."""
    for end in ("value", "low", "high") if isinstance(found, Range) else ("value",):
        value = getattr(found, end) if isinstance(found, Range) else found
        if value is None:
            continue
        inputs = {"that_keep_it": value * of[unit], **of}
        yield figure_of(name if end == "value" else f"{name}, {end}", f"that_keep_it / {unit}", inputs, "1", SOURCE)


def _rates(one: Latencies) -> Iterator[Figure]:
    """From the first request to the last answer."""
    prompts, outputs, count = sum(one.requests.prompt), sum(one.requests.output), len(one.requests)
    span = {"duration_s": one.span_s}
    ended = float(one.sent.min())
    yield figure_of("duration", "last_answer_s - first_request_s",
                    {"last_answer_s": ended + one.span_s, "first_request_s": ended}, "s", SOURCE)  # fmt: skip
    yield figure_of("requests per second", "requests / duration_s", {"requests": count, **span}, "1/s", SOURCE)
    tokens = {"output_tokens": outputs, **span}
    yield figure_of("output tokens per second", "output_tokens / duration_s", tokens, "tokens/s", SOURCE)
    tokens["prompt_tokens"] = prompts
    formula = "(output_tokens + prompt_tokens) / duration_s"
    yield figure_of("tokens per second, prompts included", formula, tokens, "tokens/s", SOURCE)
    yield figure_of("mean prompt", "prompt_tokens / requests", {"prompt_tokens": prompts, "requests": count}, "tokens",
                    SOURCE)  # fmt: skip
    yield figure_of("mean output", "output_tokens / requests", {"output_tokens": outputs, "requests": count}, "tokens",
                    SOURCE)  # fmt: skip


def _latencies(one: Latencies) -> Iterator[Figure]:
    """Means, and each percentile between the two requests that it falls between."""
    for name in ("ttft", "tpot", "e2e"):
        values = _sorted(getattr(one, name))
        if not values:
            continue
        inputs = {"sum_s": sum(values), "requests": len(values)}
        yield figure_of(f"{name}, mean", "sum_s / requests", inputs, "s", SOURCE)
        for percent in PERCENTS:
            yield _between(f"{name}, p{percent:g}", values, percent)
    gaps = one.outcome.gaps
    for percent in PERCENTS if gaps else ():
        found = gap_at(gaps, percent)
        if found is not None:
            import math

            inputs = {"e": E, "place": math.log(found) * BINS_PER_UNIT, "bins_per_unit": BINS_PER_UNIT}
            formula = "e ** (place / bins_per_unit)"
            yield figure_of(f"between tokens, p{percent:g}", formula, inputs, "s", f"{SOURCE}, in bins of a logarithm")
    further = sum(gaps.values())
    if further:
        inputs = {"decoding_s": float((one.e2e - one.ttft).sum()), "further_tokens": further}
        yield figure_of("between tokens, mean", "decoding_s / further_tokens", inputs, "s", SOURCE)


def _sorted(values: Any) -> list[float]:
    """Those that are there."""
    return sorted(value for value in values.tolist() if value == value)


def _between(name: str, values: list[float], percent: float) -> Figure:
    """Linear interpolation between neighbours, as NumPy's percentile has it."""
    place = percent / 100 * (len(values) - 1)
    low = min(int(place), len(values) - 1)
    inputs = {"request_s": values[low], "next_s": values[min(low + 1, len(values) - 1)], "part": place - low}
    return figure_of(name, "request_s + part * (next_s - request_s)", inputs, "s", SOURCE)


def _use(one: Latencies, replica: Simulated) -> Iterator[Figure]:
    """Shares of what there was."""
    use, settings, outcome = one.outcome.use, one.outcome.settings, one.outcome
    slots, blocks = settings.max_num_seqs * replica.replicas, settings.num_blocks * replica.replicas
    shares: list[tuple[str, str, dict[str, float]]] = [
        ("slots in use", "slot_seconds / (slots * duration_s)", {"slot_seconds": use.slots_s, "slots": slots}),
        ("blocks in use", "block_seconds / (blocks * duration_s)", {"block_seconds": use.held_s, "blocks": blocks}),
        ("busy", "busy_s / duration_s", {"busy_s": use.busy_s}),
    ]
    for name, formula, inputs in shares:
        yield figure_of(name, formula, {**inputs, "duration_s": one.span_s}, "1", SOURCE)
    if use.held_s:
        inputs = {"token_seconds": use.filled_s, "block_seconds": use.held_s, "block_size": settings.block_size}
        yield figure_of("blocks filled", "token_seconds / (block_seconds * block_size)", inputs, "1", SOURCE)
    inputs = {"tokens": use.tokens, "steps": use.steps, "replicas": outcome.together,
              "max_num_batched_tokens": settings.max_num_batched_tokens}  # fmt: skip
    yield figure_of("budget in use", "tokens / (steps * replicas * max_num_batched_tokens)", inputs, "1", SOURCE)
    if outcome.queried:
        inputs = {"tokens_found": outcome.hit, "prompt_tokens": outcome.queried}
        yield figure_of("prefix hits", "tokens_found / prompt_tokens", inputs, "1", SOURCE)
    yield figure_of("preemptions", "counted", {"counted": outcome.counts.preemptions}, "1", SOURCE)
    yield figure_of("computed again", "counted", {"counted": outcome.counts.recomputed}, "tokens", SOURCE)


def _load(result: SimulateResult) -> Iterator[Figure]:
    """What arrives against what can be served, at each end."""
    if result.request_rate is None or result.capacity_requests_per_s is None:
        return
    ends = ("value", "low", "high") if isinstance(result.load, Range) else ("value",)
    for end in ends:
        load = getattr(result.load, end) if isinstance(result.load, Range) else result.load or 1.0
        inputs = {"requests_per_s": result.request_rate, "served_per_s": result.request_rate / load}
        name = "load" if end == "value" else f"load, {end}"
        yield figure_of(name, "requests_per_s / served_per_s", inputs, "1", SOURCE)
