"""What would start after memory ran out: each change is put through the whole calculation before it is said."""

from collections.abc import Iterator
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.diagnose.started import Started
from kvcalc.answers.load import operating_point
from kvcalc.answers.question import Question, stored_as
from kvcalc.answers.verdict import unfit_reason
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.errors import KvcalcError
from kvcalc.results.size import Advice
from kvcalc.specs.base import replace
from kvcalc.units import format_bytes, format_count

LEAST_CHUNK = 512  # prompt tokens of a step; below, prompts take many steps
MOST_RANKS = 16
UNSEEN = 0.05  # of the card: what is left besides where the log does not say how much was missing
ROUNDING = 1e-9


def after_out_of_memory(started: Started) -> tuple[Advice, ...]:
    """Changes that free what the failed allocation lacked, and with which the engine starts; the smallest first."""
    question = started.specs.question
    if question is None or started.budget is None:
        return ()
    found = [*_smaller_share(started, question), *_smaller_step(started, question), *_more_ranks(started, question)]
    return tuple(found)


def _smaller_share(started: Started, question: Question) -> Iterator[Advice]:
    """What fails outside the engine's share finds room where the share is smaller."""
    budget, lack = started.budget, started.lack
    given = question.deployment.gpu_memory_utilization
    if budget is None or not budget.total or not (started.rules.ASKS_FOR_SHARE or given):
        return
    asked = budget.requested if started.rules.ASKS_FOR_SHARE else (given or 0) * budget.total
    less = UNSEEN * budget.total if lack is None else lack
    share = int(100 * (asked - less) / budget.total + ROUNDING) / 100
    other = _starts(question, {"gpu_memory_utilization": share}) if share > 0 else None
    if other is None or other.capacity is None:
        return
    tokens = format_count(other.capacity.kv_cache_size_tokens or 0)
    what = "for what no profile run sees" if lack is None else "that were missing"
    effect = f"leaves {format_bytes(less)} more free, {what}; the cache still holds {tokens} tokens"
    yield Advice(change=f"--gpu-memory-utilization {share:.2f}", effect=effect, goal="fit")


def _smaller_step(started: Started, question: Question) -> Iterator[Advice]:
    """Fewer prompt tokens in a step: smaller activations."""
    lack, chunk = started.lack, Deployed(question).max_num_batched_tokens
    before = _peak(started.budget)
    while lack and before and (chunk := chunk // 2) >= LEAST_CHUNK:
        other = _starts(question, {"max_num_batched_tokens": chunk})
        after = _peak(other.budget) if other is not None else None
        if after is not None and before - after >= lack:
            effect = f"activations of {format_bytes(after)} instead of {format_bytes(before)}, as predicted"
            yield Advice(change=f"--max-num-batched-tokens {chunk}", effect=effect, goal="fit")
            return


def _more_ranks(started: Started, question: Question) -> Iterator[Advice]:
    """Where the weights are the trouble: the fewest GPUs on which it starts."""
    budget = started.budget
    if budget is None or (budget.pool is not None and budget.pool.value > 0 and not started.lack):
        return
    ranks = question.deployment.tensor_parallel_size
    while (ranks := 2 * ranks) <= MOST_RANKS:
        other = _starts(question, {"tensor_parallel_size": ranks})
        if other is not None:
            effect = f"{format_bytes(other.weight_bytes)} of weights on each GPU instead of "
            effect += f"{format_bytes(budget.weights)}"
            yield Advice(change=f"--tensor-parallel-size {ranks}", effect=effect, goal="fit")
            return


def _starts(question: Question, update: dict[str, Any]) -> Deployed | None:
    """The deployment with a change, if the engine then starts."""
    try:
        deployment = replace(question.deployment, **update)
        model = stored_as(question.model, deployment) if "quantization" in update else question.model
        other = Deployed(question._replace(model=model, deployment=deployment))
        return other if unfit_reason(other, operating_point(other)) is None else None
    except KvcalcError:
        return None


def _peak(budget: MemoryBudget | None) -> int | None:
    return budget.activation.peak.value if budget is not None and budget.activation is not None else None
