"""Serving: the steady state of a replica with clients, each of which asks again when it is answered.

Prompts ride on the steps that decode. Where requests differ in length the loop is counted in steps (`closed_loop`);
where all are equal they end and come back in lock-step, and

    TPOT = step(N) + max(N - F, 0) / O · Δ                     Δ: what one prompt adds to the steps that carry it
    TTFT = front end + pf · (base + slope · (N - 1))           pf: a prompt with the engine to itself

F of the N prompts of a round pass before a request's own first token. A scheduler that looks for requests every R steps
adds `poll` = (R - 1) / 2 · step + pf / 2 · min(R · N / O, N - 1), and more clients than run at once wait for a place
(`beyond_capacity`). Constants are fitted to closed-loop benchmarks.

Unit: s
Source: Yu et al. 2022 (Orca), section 3, for prompts that ride on iterations; Little 1961 and rate balance for the
rest; constants in `engines.toml`
"""

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import replace
from math import exp, hypot, log
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, is_array, least
from kvcalc.counting.work import Step
from kvcalc.timing.carried_prompts import carried
from kvcalc.timing.closed_loop import Loop, Times, Turn, crowding, width_after
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.estimate import Estimate, front_end_time
from kvcalc.timing.passes import pass_of
from kvcalc.timing.prompts import Requests, alone_time, busy_prompt, carried_time, packed_prompts, shared_by, steps_of
from kvcalc.timing.prompts_first import prompts_first
from kvcalc.timing.ranges import range_around
from kvcalc.timing.replica import Replica

LARGEST_BATCH = 65_536
# How many run at once is itself an estimate, and those that wait their turn at the prompt do not decode: with more
# clients than places, measured times per token are up to a quarter below the estimate. A judgement on some thirty runs.
CROWDED_LOW, CROWDED_HIGH = 0.85, 1.15
FEWER = 0.9  # of the sequences: between the two a step is taken as linear
NO_DRAFTS = Estimate(1.0, 1.0, 1.0)


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
    profile, alone = replica.machine.profile, alone_time(replica, asked)
    prompt_s, prompt_alone_s = busy_prompt(replica, asked), alone.value - profile.front_end_alone_s
    if asked.equal:
        decode = pass_of(replica, Step(decode=concurrency, context=asked.context))
        tpot_s, ttft_s = equal_loop(replica, asked, concurrency, prompt_alone_s, decode.time_s / gain.value)
    else:
        turn, times, found = mixed_loop(replica, asked, concurrency, prompt_alone_s, gain)
        decode = pass_of(replica, Step(decode=turn.decoding, context=asked.context))
        looks_s = polling(replica.recv_interval, asked, concurrency, (prompt_alone_s, times.step_s))
        tpot_s, ttft_s = found.tpot_s, found.ttft_s + looks_s
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


def turn_of(replica: Replica, asked: Requests, clients: Quantity) -> Turn:
    """A client's turn, where requests differ in length."""
    turn = Turn(
        clients,
        asked.output_len,
        first_wave=1 / asked.waves,
        ahead=replica.ahead,
        pieces=steps_of(asked, replica.budget),
        load=max(asked.computed, 1) / replica.budget,
        looks=replica.recv_interval,
    )
    if asked.equal:
        return replace(turn, apart=0.0)
    turn = replace(turn, crowd=crowding(turn, asked.spread, asked.waves))
    width = width_after(turn, asked.spread, asked.waves - 1)
    drawn = 2 * asked.spread * asked.output_len
    return replace(turn, apart=least(width / (turn.further + turn.away), 1), drawn=drawn)


def mixed_loop(
    replica: Replica, asked: Requests, clients: Quantity, alone_s: Quantity, gain: Estimate = NO_DRAFTS
) -> tuple[Turn, Times, Loop]:
    """The loop of clients whose requests differ in length, and what it is made of; `alone_s` of a prompt alone."""
    profile, turn = replica.machine.profile, turn_of(replica, asked, clients)
    sequences, sharing = (clients, 1) if asked.equal else (turn.decoding, turn.sharing)
    step_s = pass_of(replica, Step(decode=sequences, context=asked.context)).time_s
    times = Times(
        front_s=front_end_time(profile, clients),
        step_s=step_s,
        prompt_s=carried_time(replica, asked, sequences, sharing),
        alone_s=alone_s,
        packed_s=packed_prompts(replica, asked).time_s / shared_by(replica, asked),
        each_s=0.0 if asked.equal else each_sequence(replica, asked.context, sequences, step_s),
        gain=gain.value,
    )
    return turn, times, prompts_first(turn, times) if profile.prefill_first else carried(turn, times)


def each_sequence(replica: Replica, context: float, sequences: Quantity, step_s: Quantity) -> Quantity:
    """Seconds that one sequence less takes off a step of so many."""
    if not is_array(sequences) and sequences == 1:
        return 0.0
    fewer_s = pass_of(replica, Step(decode=FEWER * sequences, context=context)).time_s
    return (step_s - fewer_s) / ((1 - FEWER) * sequences)


def equal_loop(
    replica: Replica, asked: Requests, clients: Quantity, alone_s: Quantity, step_s: Quantity
) -> tuple[Quantity, Quantity]:
    """TPOT and TTFT where all requests are of one length; in newer schedulers they do not come back together."""
    profile = replica.machine.profile
    others = clients - prefills_seen(profile, clients)
    tpot_s = closed_loop_tpot(step_s, carried_time(replica, asked, clients), others, asked)
    if not profile.lock_step:
        return tpot_s, mixed_loop(replica, asked, clients, alone_s)[2].ttft_s
    return tpot_s, first_token(profile, clients, alone_s)


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


def prefills_seen(profile: Profile, clients: Quantity) -> Quantity:
    """F: prompts of a round of equal requests that pass before a request's own first token, on average.

    Unit: prompts
    """
    half = (clients + 1) / 2
    if profile.prefill_first:
        return half
    return least(profile.seen_base_equal + profile.seen_slope_equal * clients, half)


def closed_loop_tpot(step_s: Quantity, carried_s: Quantity, others: Quantity, asked: Requests) -> Quantity:
    """Mean time per output token after the first: a step, and the part of the `others`' prompts that falls into it.

    >>> round(closed_loop_tpot(step_s=0.01, carried_s=0.1, others=20, asked=Requests(1000, 200)), 3)
    0.02
    """
    return step_s + greatest(others, 0) / asked.output_len * carried_s


def first_token(profile: Profile, clients: Quantity, prompt_s: Quantity) -> Quantity:
    """Mean time to first token of N clients whose requests are equal and come together; one prompt alone takes pf."""
    prompts = profile.queue_base_equal + profile.queue_slope_equal * (clients - 1)
    return front_end_time(profile, clients) + prompt_s * prompts


def polling(interval: Quantity, asked: Requests, clients: Quantity, times_s: tuple[Quantity, Quantity]) -> Quantity:
    """What a scheduler that looks for new requests only every R decode steps adds to the time to first token.

    Half an interval of steps, and half the prompts that came meanwhile; a prompt resets the count.

    Args:
        interval: R; 1 looks at every step.
        asked: lengths, and how many waves of requests come.
        clients: N.
        times_s: of one prompt alone and of a decode step.
    """
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
