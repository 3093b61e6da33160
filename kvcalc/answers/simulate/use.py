"""What a run used: slots, blocks, budget, time, and what it cost to have too little of them."""

from bisect import bisect_right
from typing import Any

from kvcalc.answers.simulate.figures import Latencies, spread
from kvcalc.answers.simulate.machine import Simulated
from kvcalc.results.simulate import Moment, Waste

SHOWN_MOMENTS = 240


def use_of(runs: list[Latencies], replica: Simulated) -> dict[str, Any]:
    """Fields of the result, by name; of all replicas together."""
    slots = replica.settings.max_num_seqs * replica.replicas
    blocks = replica.settings.num_blocks * replica.replicas
    return {
        "slot_use": spread(runs, lambda one: one.outcome.use.slots_s / (slots * one.span_s)),
        "block_use": spread(runs, lambda one: one.outcome.use.held_s / (blocks * one.span_s)),
        "waste": _waste(runs[0]),
        "block_fill": spread(runs, _fill),
        "budget_use": spread(runs, _budget),
        "busy_share": spread(runs, lambda one: one.outcome.use.busy_s / one.span_s),
        "pool_full_s": runs[0].outcome.full_s,
        "preemptions": spread(runs, lambda one: one.outcome.counts.preemptions),
        "swapped_blocks": spread(runs, lambda one: one.outcome.counts.swapped_blocks),
        "recomputed_tokens": spread(runs, lambda one: one.outcome.counts.recomputed),
        "prefix_hit_rate": spread(runs, _hit_rate) if replica.settings.prefix_caching else None,
        "steps": runs[0].outcome.use.steps,
        "max_num_seqs": slots,
        "num_blocks": blocks,
        "block_size": replica.settings.block_size,
        "timeline": _timeline(runs[0]),
    }


def _fill(one: Latencies) -> float | None:
    use, size = one.outcome.use, one.outcome.settings.block_size
    return use.filled_s / (use.held_s * size) if use.held_s else None


def _waste(one: Latencies) -> Waste | None:
    use, settings = one.outcome.use, one.outcome.settings
    whole = use.crowded_s * settings.num_blocks * settings.block_size * one.outcome.together
    if not whole:
        return None
    return Waste(
        tokens=use.crowded_filled_s / whole,
        reserved=(use.crowded_promised_s - use.crowded_filled_s) / whole,
        internal=(use.crowded_held_s - use.crowded_promised_s) / whole,
        external=1 - use.crowded_held_s / whole,
    )


def _budget(one: Latencies) -> float:
    use = one.outcome.use
    return use.tokens / (use.steps * one.outcome.together * one.outcome.settings.max_num_batched_tokens)


def _hit_rate(one: Latencies) -> float | None:
    return one.outcome.hit / one.outcome.queried if one.outcome.queried else None


def _timeline(one: Latencies) -> tuple[Moment, ...]:
    samples, stopped_s = one.outcome.use.samples, sorted(one.outcome.counts.stopped_s)
    every = max(1, -(-len(samples) // SHOWN_MOMENTS))
    return tuple(Moment(time_s=s.time_s, running=s.running, waiting=s.waiting, blocks=s.blocks,
                        preemptions=bisect_right(stopped_s, s.time_s)) for s in samples[::every])  # fmt: skip
