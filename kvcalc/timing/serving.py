"""Serving in a steady state: what continuous batching makes of steps and prompts.

A server with N clients, each of which sends its next request when the last is answered, decodes N sequences in every
step and carries their prompts beside them. With I input and O output tokens a request,

    TPOT  = step(N) + max(N - F, 0) / O · Δ        Δ: what one prompt adds to the steps that carry it
    TTFT  = prefill · (base + slope · (N - 1)) + fixed

F of the N prompts of a round pass before a request's own first token, so they show in its TTFT and not in its TPOT:
TTFT + (O - 1) · TPOT = N · prefill + O · step, whatever F is.
"""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.counting.operators.passes import decode_step, mixed_step, prefill_step
from kvcalc.specs.deployment import BATCHED_TOKENS, Layout
from kvcalc.specs.model import ModelSpec
from kvcalc.timing.estimate import (
    Estimate,
    KernelSums,
    first_token_time,
    kernel_sums,
    prefill_time,
    ranged,
    step_time,
)
from kvcalc.timing.price import Machine
from kvcalc.timing.profile import Profile
from kvcalc.timing.ranges import spread

LARGEST_BATCH = 65_536


class Steady(NamedTuple):
    """Serving figures of one data-parallel replica at a concurrency; of a range, where measured ones fall."""

    ttft_alone_s: Estimate  # nobody else in the engine
    ttft_s: Estimate
    tpot_s: Estimate
    output_tokens_per_s: Quantity  # at the estimates' values
    total_tokens_per_s: Quantity  # prompts' tokens too
    output_tokens_per_s_per_gpu: Quantity


def steady_state(
    model: ModelSpec,
    layout: Layout,
    machine: Machine,
    *,
    concurrency: Quantity,
    input_len: float,
    output_len: float,
    cache_dtype: str = "bf16",
    ragged: bool = False,
    budget: int = BATCHED_TOKENS,
) -> Steady:
    """Latencies and throughput of `concurrency` clients per replica, each waiting for its answer before it asks again.

    Args:
        concurrency: requests in flight in one data-parallel replica.
        input_len: mean prompt tokens.
        output_len: mean output tokens.
        ragged: lengths differ between requests, so that their prompts do not all arrive together.
        budget: prompt tokens that one step carries at most (`--max-num-batched-tokens`).
    """
    profile = machine.profile
    context = input_len + output_len / 2
    decode = decode_step(model, layout, batch=concurrency, context=context, cache_dtype=cache_dtype)
    sums = kernel_sums(decode, machine)
    carried = carried_prefill(
        model, layout, machine, batch=concurrency, context=context, input_len=input_len, cache_dtype=cache_dtype,
        budget=budget,
    )  # fmt: skip
    prompt = kernel_sums(prefill_step(model, layout, tokens=input_len, cache_dtype=cache_dtype), machine)
    step = step_time(sums, profile, concurrency)
    seen = prefills_seen(profile, concurrency, ragged)
    tpot = closed_loop_tpot(step, carried_time(carried, profile), concurrency - seen, output_len)
    ttft = closed_loop_ttft(prompt.total_s(profile), profile, concurrency, ragged)
    whole = ttft + (output_len - 1) * tpot
    rate = concurrency * output_len / whole * layout.data_parallel_size
    queue = "ttft-queue-prefill-first" if profile.prefill_first else "ttft-queue"
    return Steady(
        ttft_alone_s=ranged(first_token_time(prompt, profile), spread("ttft-alone"), machine),
        ttft_s=ranged(ttft, spread(queue), machine),
        tpot_s=ranged(tpot, spread("tpot-moe" if sums.routed else "tpot-dense"), machine),
        output_tokens_per_s=rate,
        total_tokens_per_s=rate * (1 + input_len / output_len),
        output_tokens_per_s_per_gpu=rate / layout.gpus,
    )


def carried_prefill(
    model: ModelSpec,
    layout: Layout,
    machine: Machine,
    *,
    batch: Quantity,
    context: Quantity,
    input_len: float,
    cache_dtype: str = "bf16",
    budget: int = BATCHED_TOKENS,
) -> KernelSums:
    """Kernels that one prompt adds to the decode steps that carry it, in equal chunks of at most `budget` tokens.

    Decode attention and the engine's overhead are in both steps and cancel: the difference is what the rows add.
    """
    plain = kernel_sums(decode_step(model, layout, batch=batch, context=context, cache_dtype=cache_dtype), machine)
    chunks = max(1, ceil(input_len / budget))
    size = input_len / chunks
    added = KernelSums()
    for index in range(chunks):
        mixed = mixed_step(
            model, layout, batch=batch, context=context, tokens=size, start=index * size, cache_dtype=cache_dtype
        )
        added = added + kernel_sums(mixed, machine) - plain
    return added


def prefills_seen(profile: Profile, concurrency: Quantity, ragged: bool) -> Quantity:
    """F: prompts of one round that pass before a request's own first token, on average."""
    if ragged:
        return profile.seen_base_ragged + profile.seen_slope_ragged * concurrency
    half = (concurrency + 1) / 2
    if profile.prefill_first:
        return half
    return least(profile.seen_base_equal + profile.seen_slope_equal * concurrency, half)


def carried_time(carried: KernelSums, profile: Profile) -> Quantity:
    """Seconds that one prompt adds to the decode steps that carry it."""
    return profile.prefill_factor * carried.total_s(profile)


def closed_loop_tpot(step_s: Quantity, carried_s: Quantity, others: Quantity, output_len: Quantity) -> Quantity:
    """Mean time per output token after the first: a step, and the part of the `others`' prompts that falls into it.

    >>> round(closed_loop_tpot(step_s=0.01, carried_s=0.1, others=20, output_len=200), 3)
    0.02
    """
    return step_s + greatest(others, 0) / output_len * carried_s


def closed_loop_ttft(prefill_s: Quantity, profile: Profile, concurrency: Quantity, ragged: bool) -> Quantity:
    """Mean time to first token of clients that all started together, over about ten rounds."""
    base = profile.queue_base_ragged if ragged else profile.queue_base_equal
    slope = profile.queue_slope_ragged if ragged else profile.queue_slope_equal
    return prefill_s * (base + slope * (concurrency - 1)) + profile.queue_fixed_s


def static_batch_time(step_s: Quantity, prefill_s: Quantity, output_len: Quantity) -> Quantity:
    """Seconds of a batch that starts and ends together: all prompts, then a step for each further token."""
    return prefill_s + (output_len - 1) * step_s


def saturated_tokens_per_s(step_s: Quantity, prefill_s: Quantity, batch: Quantity, output_len: Quantity) -> Quantity:
    """Output tokens/s of one replica with more requests than slots: a share of a step and of a prompt for each."""
    return 1 / (step_s / batch + prefill_s / output_len)


def prompts_time(model: ModelSpec, layout: Layout, machine: Machine, tokens: Quantity, prompts: Quantity = 1,
                 cache_dtype: str = "bf16") -> Quantity:  # fmt: skip
    """Seconds of work that whole prompts cost a busy engine."""
    operators = prefill_step(model, layout, tokens=tokens, prompts=prompts, cache_dtype=cache_dtype)
    return prefill_time(kernel_sums(operators, machine), machine.profile)


def largest_batch(time_of: Callable[[int], float], target_s: float, most: int = LARGEST_BATCH) -> int | None:
    """The largest batch whose time is at most the target, where time grows with the batch; None: not even one.

    >>> largest_batch(lambda batch: 0.01 + 0.001 * batch, 0.02), largest_batch(lambda batch: 1.0, 0.5)
    (10, None)
    """
    if time_of(1) > target_s:
        return None
    low, high = 1, 2
    while high <= most and time_of(high) <= target_s:
        low, high = high, 2 * high
    high = min(high, most + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if time_of(middle) <= target_s else (low, middle)
    return low
