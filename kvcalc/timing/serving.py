"""Serving in a closed loop: what continuous batching makes of steps and prompts.

A replica serves N clients, each of which sends its next request when the last is answered; M requests come in all, with
I prompt tokens and O output tokens on average. Their prompts (pf seconds each) ride on the steps that decode.

    TPOT  = step(N) + max(N - F, 0) / O · Δ                    Δ: what one prompt adds to the steps that carry it
    ρ     = N · pf / (pf + O · TPOT)                           the share of time that prompts take
    wait  = pf · min(ρ / (2 · max(1 - ρ, 0.1)), (N - 1) / 2)
    TTFT  = front end + pf + s · pf · (N - 1) / 2 + (1 - s) · (wait + step / 2)        s = N / M: the first wave
    poll  = (R - 1) / 2 · step + pf / 2 · min(R · N / O, N - 1)        where requests are looked for every R steps

F of the N prompts of a round pass before a request's own first token. More clients than run at once wait for a place:
`beyond_capacity`. Fitted to closed-loop benchmarks; an event simulation of the same steps differs from it by 7 %.

Unit: s
Source: Yu et al. 2022 (Orca), section 3, for prompts that ride on iterations; Little 1961 and rate balance for the
rest; constants in `engines.toml`
"""

from bisect import bisect_left
from collections.abc import Callable
from math import exp, hypot, log
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.counting.work import Step
from kvcalc.timing.chunks import chunks
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.estimate import Estimate, busy_prompt_time, front_end_time
from kvcalc.timing.passes import pass_of
from kvcalc.timing.ranges import range_around
from kvcalc.timing.replica import Replica

LARGEST_BATCH = 65_536
# How many run at once is itself an estimate, and those that wait their turn at the prompt do not decode: with more
# clients than places, measured times per token are up to a third below the estimate. A judgement on some twenty runs.
CROWDED_LOW, CROWDED_HIGH = 0.75, 1.15
NO_DRAFTS = Estimate(1.0, 1.0, 1.0)
LEAST_IDLE = 0.1  # a queue of prompts is taken to end, however busy the engine


class Requests(NamedTuple):
    """What clients ask: mean tokens in and out, the part of each prompt that is cached, and how many come in all."""

    input_len: float
    output_len: float
    prefix_hit: float = 0
    waves: float = 10  # requests in all, as multiples of the clients
    equal: bool = False  # all of one length, so that their prompts arrive together

    @property
    def context(self) -> float:
        """Mean cached tokens while a request decodes."""
        return self.input_len + self.output_len / 2

    @property
    def computed(self) -> float:
        """Prompt tokens that are computed."""
        return self.input_len - self.prefix_hit


class Steady(NamedTuple):
    """Serving figures of one replica at a concurrency that all run at once; seconds."""

    ttft_alone: Estimate  # nobody else in the engine
    ttft: Estimate
    tpot: Estimate | None  # None: one token out, and no second to wait for
    prompt_s: Quantity  # what one request's prompt keeps a busy engine

    def whole_s(self, output_len: float, end: str = "value") -> Quantity:
        """Seconds of one request from its first word to its last, at one end of both ranges."""
        first: Quantity = getattr(self.ttft, end)
        last: Quantity = 0.0 if self.tpot is None else (output_len - 1) * getattr(self.tpot, end)
        return first + last


def steady_state(replica: Replica, asked: Requests, concurrency: Quantity, gain: Estimate = NO_DRAFTS) -> Steady:
    """Latencies of `concurrency` clients of a replica, each waiting for its answer before it asks again.

    `gain`: how many times faster than plain steps tokens come, where drafts are checked.
    """
    profile = replica.machine.profile
    decode = pass_of(replica, Step(decode=concurrency, context=asked.context))
    alone = alone_time(replica, asked)
    prompt_s = busy_prompt(replica, asked)
    seen = prefills_seen(profile, concurrency, not asked.equal)
    token_s = decode.time_s / gain.value
    tpot_s = closed_loop_tpot(token_s, carried_time(replica, asked, concurrency), concurrency - seen, asked)
    prompt_alone_s = alone.value - profile.front_end_alone_s
    ttft_s = first_token(profile, asked, concurrency, (prompt_alone_s, decode.time_s, tpot_s))
    ttft_s = ttft_s + polling(replica.recv_interval, asked, concurrency, (prompt_alone_s, decode.time_s))
    # All clients' prompts pass within one request's life.
    ttft_s = greatest(ttft_s, concurrency * prompt_s - (asked.output_len - 1) * tpot_s)
    around = range_around(replica.machine, replica.routed, "first-token", replica.knowledge)
    step = decode.estimate
    assert step is not None
    return Steady(
        ttft_alone=alone,
        ttft=Estimate(ttft_s, least(ttft_s, greatest(around.low * ttft_s, least(alone.low, ttft_s))),
                      around.high * ttft_s),
        tpot=_moved(tpot_s, hastened(step, gain)) if asked.output_len > 1 else None,
        prompt_s=prompt_s,
    )  # fmt: skip


def beyond_capacity(found: Steady, asked: Requests, clients: float, running: float) -> Steady:
    """The same with more clients than run at once: the others wait for a place, and their wait is in the first token.

        TTFT(N) = TTFT(cap) + (N - cap) / cap · (TTFT(cap) + (O - 1) · TPOT(cap))

    Of 39 measured rows TPOT errs by 9 %, TTFT by a factor of up to 1.7 either way.
    """
    if clients <= running:
        return found
    rounds = (clients - running) / running
    tpot = found.tpot and found.tpot._replace(low=CROWDED_LOW * found.tpot.low, high=CROWDED_HIGH * found.tpot.high)
    found = found._replace(tpot=tpot)
    ends = [getattr(found.ttft, end) + rounds * found.whole_s(asked.output_len, end) for end in Estimate._fields]
    return found._replace(ttft=Estimate(*ends))


def hastened(step: Estimate, gain: Estimate) -> Estimate:
    """A step's time for each token that drafts make of it; the two ranges are independent.

    >>> hastened(Estimate(0.03, 0.027, 0.036), Estimate(2.0, 2.0, 2.0)).low
    0.0135
    """
    if gain.low == gain.high:  # nothing is drafted, or what it gains is known: of arrays too
        return Estimate(*(one / gain.value for one in step))
    value = step.value / gain.value
    low = hypot(log(step.low / step.value), log(gain.value / gain.high))
    high = hypot(log(step.high / step.value), log(gain.value / gain.low))
    return Estimate(value, value * exp(-low), value * exp(high))


def _moved(value: Quantity, step: Estimate) -> Estimate:
    """A step's range around the time per token that it is the greatest part of."""
    return Estimate(value, value * (step.low / step.value), value * (step.high / step.value))


def alone_time(replica: Replica, asked: Requests) -> Estimate:
    """Time to first token with nobody else in the engine: the front end, and the prompt in chunks of the budget."""
    front = replica.machine.profile.front_end_alone_s
    value: Quantity = front
    low: Quantity = front
    high: Quantity = front
    parts = chunks(asked.computed, replica.budget, asked.prefix_hit)
    overlap = replica.overlap(sum(part.number for part in parts))
    for part in parts:
        found = pass_of(replica, Step(prompts=1, tokens=part.tokens, start=part.start)).estimate
        assert found is not None
        times = overlap * part.number
        value, low, high = value + times * found.value, low + times * found.low, high + times * found.high
    return Estimate(value, low, high)


def carried_time(replica: Replica, asked: Requests, batch: Quantity) -> Quantity:
    """Seconds that one prompt adds to the decode steps that carry it.

    Decode attention and the engine's overhead are in both steps and cancel: the difference is what the rows add. A
    scheduler that runs prompts as steps of their own adds the whole of them.
    """
    apart = replica.machine.profile.prefill_first
    decode = Step(decode=0 if apart else batch, context=asked.context)
    added: Quantity = 0.0
    for part in chunks(asked.computed, replica.budget, asked.prefix_hit):
        mixed = pass_of(replica, decode._replace(prompts=1, tokens=part.tokens, start=part.start))
        added = added + part.number * (mixed.time_s - (0.0 if apart else mixed.without_prompts.time_s))
    return added


def busy_prompt(replica: Replica, asked: Requests) -> Quantity:
    """Seconds of work that one prompt costs an engine that always has the next; short ones share a step."""
    together = max(1.0, replica.budget / max(asked.computed, 1))
    step = Step(prompts=together, tokens=asked.computed, start=asked.prefix_hit)
    return busy_prompt_time(pass_of(replica, step).sums, replica.machine.profile) / together


def prefills_seen(profile: Profile, concurrency: Quantity, ragged: bool) -> Quantity:
    """F: prompts of one round that pass before a request's own first token, on average.

    Unit: prompts
    """
    if ragged:
        return profile.seen_base_ragged + profile.seen_slope_ragged * concurrency
    half = (concurrency + 1) / 2
    if profile.prefill_first:
        return half
    return least(profile.seen_base_equal + profile.seen_slope_equal * concurrency, half)


def closed_loop_tpot(step_s: Quantity, carried_s: Quantity, others: Quantity, asked: Requests) -> Quantity:
    """Mean time per output token after the first: a step, and the part of the `others`' prompts that falls into it.

    >>> round(closed_loop_tpot(step_s=0.01, carried_s=0.1, others=20, asked=Requests(1000, 200)), 3)
    0.02
    """
    return step_s + greatest(others, 0) / asked.output_len * carried_s


def first_token(
    profile: Profile, asked: Requests, clients: Quantity, times_s: tuple[Quantity, Quantity, Quantity]
) -> Quantity:
    """Mean time to first token of N clients.

    Args:
        profile: of the engine.
        asked: lengths, and how many waves of requests come.
        clients: N, all of which run at once.
        times_s: of one prompt alone, of a decode step, and of an output token.
    """
    prompt_s, step_s, tpot_s = times_s
    others = clients - 1
    front = front_end_time(profile, clients)
    if asked.equal and profile.lock_step:
        prompts = profile.queue_base_equal + profile.queue_slope_equal * others
        return front + prompt_s * prompts
    wait = prompt_wait(clients, prompt_s, asked.output_len * tpot_s)
    joining = 0.0 if profile.prefill_first else step_s / 2 * least(others, 1)
    first_wave = 1 / asked.waves
    return front + prompt_s + first_wave * prompt_s * others / 2 + (1 - first_wave) * (wait + joining)


def prompt_wait(clients: Quantity, prompt_s: Quantity, decoding_s: Quantity) -> Quantity:
    """Seconds that a prompt waits for others': a queue of N that each take pf and then decode for a while.

    >>> prompt_wait(clients=5, prompt_s=0.1, decoding_s=0.9)
    0.05
    """
    busy = clients * prompt_s / (prompt_s + decoding_s)
    return prompt_s * least(busy / (2 * greatest(1 - busy, LEAST_IDLE)), (clients - 1) / 2)


def polling(interval: Quantity, asked: Requests, clients: Quantity, times_s: tuple[Quantity, Quantity]) -> Quantity:
    """What a scheduler that looks for new requests only every R decode steps adds to the time to first token.

    Half an interval of steps, and half the prompts that came meanwhile; a prompt resets the count.

    Args:
        interval: R; 1 looks at every step.
        asked: lengths, and how many waves of requests come.
        clients: N.
        times_s: of one prompt alone and of a decode step.
    """
    if asked.equal:
        return 0.0
    prompt_s, step_s = times_s
    others = clients - 1
    seldom = least(interval - 1, 1)  # 0 where it looks at every step
    together = seldom * prompt_s / 2 * least(interval * clients / asked.output_len, others)
    return (1 - 1 / asked.waves) * ((interval - 1) / 2 * step_s * least(others, 1) + together)


def static_batch_time(step_s: Quantity, prefill_s: Quantity, output_len: Quantity) -> Quantity:
    """Seconds of a batch that starts and ends together: all prompts, then a step for each further token."""
    return prefill_s + (output_len - 1) * step_s


def saturated_tokens_per_s(step_s: Quantity, prefill_s: Quantity, batch: Quantity, output_len: Quantity) -> Quantity:
    """Output tokens/s of one replica with more requests than slots: a share of a step and of a prompt for each.

    Unit: tokens/s
    """
    return 1 / (step_s / batch + prefill_s / output_len)


def largest_batch(time_of: Callable[[int], float], target_s: float, most: int = LARGEST_BATCH) -> int | None:
    """The largest batch whose time is at most the target, where time grows with the batch; None: not even one.

    Unit: sequences

    >>> largest_batch(lambda batch: 0.01 + 0.001 * batch, 0.02), largest_batch(lambda batch: 1.0, 0.5)
    (10, None)
    """
    high = 1
    while high <= most and time_of(high) <= target_s:  # near the answer: a large batch takes long to work out
        high *= 2
    batches = range(high // 2 + 1, min(high, most + 1))
    return high // 2 + bisect_left(batches, True, key=lambda batch: time_of(batch) > target_s) or None
