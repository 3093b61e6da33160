"""Separate GPUs for prompts and for decoding, against chunks on the same ones: both in a steady state, per GPU.

A request brings I prompt tokens and takes O decode steps. On GPUs that do both, a step of B sequences finishes B / O
requests on average, so it must carry B · I / O prompt tokens: chunks of that size keep pace. On separate GPUs a request
costs one prefill on one side and O / B of a decode step on the other; the pools balance where neither waits.
"""

from fractions import Fraction
from functools import partial
from typing import Literal

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.counting.work import Step
from kvcalc.results.prefill import Disaggregation, PoolServing, Transfer
from kvcalc.specs.base import Frozen
from kvcalc.timing.passes import Pass
from kvcalc.timing.serving import largest_batch

WORTH_IT = 0.05  # a gain below this is within the estimates' error, and one pool is simpler
MOST_REPLICAS = 8  # on both sides, in the small whole numbers that stand for a balance near one


class Load(Frozen):
    """What each request brings, and what a step may carry."""

    prompt: int
    hit: int  # cached already
    output_len: int
    context: int  # mean, of the decoding sequences
    budget: int  # tokens in a step
    batch: int
    max_batch: int | None
    tpot_s: float | None  # target


def disaggregation(deployed: Deployed, load: Load, prefill_s: float, link: Transfer) -> Disaggregation:
    """Both ways of serving, at the batch that was asked for or, with a target, at the largest that each can run."""
    decode = partial(_decode_time, deployed, load)
    mixed = partial(_mixed_time, deployed, load)
    batch_apart, batch_mixed = _batch(decode, load), _batch(mixed, load)
    apart = batch_apart and _apart(deployed, load, batch_apart, decode(batch_apart), prefill_s, link)
    together = batch_mixed and _together(deployed, load, batch_mixed, mixed(batch_mixed))
    balance = _prompt_time(deployed, load) / (load.output_len * decode(batch_apart or 1) / (batch_apart or 1))
    pools = _small(balance)
    better, why = _verdict(together or None, apart or None, load)
    return Disaggregation(
        output_len=load.output_len,
        link=link.link,
        prefill_per_decode=balance,
        prefill_replicas=pools.numerator,
        decode_replicas=pools.denominator,
        busy_share=min(balance / float(pools), float(pools) / balance),
        prompt_tokens_per_step=_carried(load, batch_mixed or load.batch),
        chunked=together or None,
        disaggregated=apart or None,
        better=better,
        why=why,
    )


def _decode_time(deployed: Deployed, load: Load, batch: int) -> float:
    return float(Pass(deployed.replica, Step(decode=batch, context=load.context)).time_s)


def _prompt_time(deployed: Deployed, load: Load) -> float:
    """What a prompt keeps a GPU of the prefill pool: its first token's time without the front end."""
    return Performance(deployed).alone(load.prompt).time_s - deployed.front_end_s


def _carried(load: Load, batch: int) -> float:
    """Prompt tokens of a step that keeps pace with the requests, or the budget where that is less."""
    return min(batch * (load.prompt - load.hit) / load.output_len, max(1, load.budget - batch))


def _mixed_time(deployed: Deployed, load: Load, batch: int) -> float:
    """A mean step: its tokens come from anywhere in a prompt, so from the middle."""
    carried, whole = _carried(load, batch), load.prompt - load.hit
    tokens = min(carried, whole)
    start = load.hit + (whole - tokens) / 2
    step = Step(decode=batch, context=load.context, prompts=carried / tokens, tokens=tokens, start=start)
    return float(Pass(deployed.replica, step).time_s)


def _batch(time_of: partial[float], load: Load) -> int | None:
    if load.tpot_s is None:
        return load.batch
    if load.max_batch is None:
        return largest_batch(time_of, load.tpot_s)
    return largest_batch(time_of, load.tpot_s, load.max_batch) if load.max_batch else None


def _apart(
    deployed: Deployed, load: Load, batch: int, decode_s: float, prefill_s: float, link: Transfer
) -> PoolServing:
    """Per GPU of both pools together, in balance."""
    seconds = _prompt_time(deployed, load) + load.output_len * decode_s / batch
    return PoolServing(
        batch=batch,
        tpot_s=decode_s,
        ttft_s=prefill_s + link.exposed_s,
        output_tokens_per_s_per_gpu=load.output_len / seconds / _gpus(deployed),
    )


def _together(deployed: Deployed, load: Load, batch: int, step_s: float) -> PoolServing:
    """Each step the same: its share of the prompts, and so many requests finished."""
    requests = _carried(load, batch) / (load.prompt - load.hit)
    return PoolServing(
        batch=batch,
        tpot_s=step_s,
        ttft_s=max(1.0, 1 / requests) * step_s,
        output_tokens_per_s_per_gpu=requests * load.output_len / step_s / _gpus(deployed),
    )


def _gpus(deployed: Deployed) -> int:
    """Of one replica."""
    return deployed.deployment.tensor_parallel_size * deployed.deployment.pipeline_parallel_size


def _small(balance: float) -> Fraction:
    """The fraction of small whole numbers nearest to a ratio; at least one replica on each side.

    >>> _small(0.5), _small(40.2), _small(0.011)
    (Fraction(1, 2), Fraction(40, 1), Fraction(1, 91))
    """
    if balance >= MOST_REPLICAS:
        return Fraction(round(balance))
    if balance <= 1 / MOST_REPLICAS:
        return Fraction(1, round(1 / balance))
    options = [Fraction(p, d) for p in range(1, MOST_REPLICAS + 1) for d in range(1, MOST_REPLICAS + 1)]
    return min(options, key=lambda one: (abs(float(one) / balance - 1), one.numerator + one.denominator))


def _verdict(
    together: PoolServing | None, apart: PoolServing | None, load: Load
) -> tuple[Literal["chunked", "disaggregated", "neither"], str]:
    if together is None and apart is None:
        return "neither", "no batch meets the target"
    if together is None:
        return "disaggregated", "no batch meets the target while prompts ride on its steps"
    if apart is None:
        return "chunked", "no batch meets the target"
    gain = apart.output_tokens_per_s_per_gpu / together.output_tokens_per_s_per_gpu - 1
    at = "at the largest batches that meet the target" if load.tpot_s else "at this batch"
    if gain > WORTH_IT:
        return "disaggregated", f"{gain:.0%} more tokens per GPU {at}"
    how = f"{gain:.0%} more" if gain > 0 else f"{-gain:.0%} fewer"
    return "chunked", f"separate pools give {how} tokens per GPU {at}, and are more to run"
