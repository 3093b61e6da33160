"""What would start after memory ran out: each change is put through the whole calculation before it is said."""

from collections.abc import Iterator
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.diagnose.started import Started
from kvcalc.answers.offload import offloaded, starts
from kvcalc.answers.question import Question
from kvcalc.answers.searches import largest
from kvcalc.engines import rules
from kvcalc.engines.lowered import CELLS
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.errors import KvcalcError
from kvcalc.results.size import Advice
from kvcalc.specs.base import replace
from kvcalc.specs.checked import flag_of
from kvcalc.units import format_bytes, format_count

# Judgements: what advice is worth giving.
LEAST_LENGTH = 2048  # tokens of a sequence; a server of shorter ones is no help
LEAST_CHUNK = 512  # prompt tokens of a step; below, prompts take many steps
MOST_RANKS = 16  # tried: two nodes
UNSEEN = 0.05  # of the card: what is left besides where the log does not say how much was missing
ROUNDING = 1e-9  # of a share


def after_out_of_memory(started: Started) -> tuple[Advice, ...]:
    """Changes that free what the failed allocation lacked, and with which the engine starts; the smallest first."""
    question = started.specs.question
    if question is None or started.budget is None:
        return ()
    here = [*_smaller_share(started, question), *_smaller_step(started, question), *_less_on_the_card(question)]
    return (*here, *_more_ranks(started, question))


def _smaller_share(started: Started, question: Question) -> Iterator[Advice]:
    """What fails outside the engine's share finds room where the share is smaller."""
    budget, lack = started.budget, started.lack
    given = question.deployment.gpu_memory_utilization
    if budget is None or not budget.total or not (started.rules.ASKS_FOR_SHARE or given):
        return
    asked = budget.requested if started.rules.ASKS_FOR_SHARE else (given or 0) * budget.total
    less = UNSEEN * budget.total if lack is None else lack
    share = int(100 * (asked - less) / budget.total + ROUNDING) / 100
    if share <= 0:
        return
    update: dict[str, Any] = {"gpu_memory_utilization": share}
    other = starts(question, update)
    if other is None and (longest := _longest(question, update)) is not None:
        update["max_model_len"] = longest
        other = starts(question, update)
    if other is None or other.capacity is None:
        return
    tokens = format_count(other.capacity.kv_cache_size_tokens or 0)
    what = "for what no profile run sees" if lack is None else "that were missing"
    effect = f"leaves {format_bytes(less)} more free, {what}; the cache still holds {tokens} tokens"
    shorter = f" --max-model-len {update['max_model_len']}" if "max_model_len" in update else ""
    yield Advice(change=f"--gpu-memory-utilization {share:.2f}{shorter}", effect=effect, goal="fit")


def _longest(question: Question, update: dict[str, Any]) -> int | None:
    """The longest sequence that the cache would hold after a change, if it is worth a server."""
    try:
        longest = Deployed(question._replace(deployment=replace(question.deployment, **update))).longest()
    except KvcalcError:
        return None
    return longest if longest is not None and longest >= LEAST_LENGTH else None


def _smaller_step(started: Started, question: Question) -> Iterator[Advice]:
    """Fewer prompt tokens in a step: smaller activations."""
    lack, chunk = started.lack, Deployed(question).max_num_batched_tokens
    before = _peak(started.budget)
    while lack and before and (chunk := chunk // 2) >= LEAST_CHUNK:
        other = starts(question, {"max_num_batched_tokens": chunk})
        after = _peak(other.budget) if other is not None else None
        if after is not None and before - after >= lack:
            effect = f"activations of {format_bytes(after)} instead of {format_bytes(before)}, as predicted"
            yield Advice(change=f"--max-num-batched-tokens {chunk}", effect=effect, goal="fit")
            return


def _less_on_the_card(question: Question) -> Iterator[Advice]:
    """An engine that can leave weights to the CPU: a smaller cache, experts that stay there, fewer layers here."""
    deployment = question.deployment
    if not rules(deployment.engine).OFFLOADS:
        return
    asked = deployment.ctx_size
    if asked is not None:
        steps = largest(lambda n: starts(question, {"ctx_size": n * CELLS}) is not None, asked // CELLS)
        if steps * CELLS >= LEAST_LENGTH:
            effect = f"the cache has {format_count(steps * CELLS)} cells instead of {format_count(asked)}"
            yield Advice(change=f"-c {steps * CELLS}", effect=effect, goal="fit")
    yield from offloaded(question)


def _more_ranks(started: Started, question: Question) -> Iterator[Advice]:
    """Where the weights are the trouble: the fewest GPUs on which it starts."""
    budget = started.budget
    if budget is None or (budget.pool is not None and budget.pool.value > 0 and not started.lack):
        return
    field = "pipeline_parallel_size" if rules(question.deployment.engine).OFFLOADS else "tensor_parallel_size"
    ranks = getattr(question.deployment, field)
    while (ranks := 2 * ranks) <= MOST_RANKS:
        other = starts(question, {field: ranks})
        if other is not None:
            effect = f"{format_bytes(other.weight_bytes_per_gpu)} of weights on each GPU instead of "
            effect += f"{format_bytes(budget.weights)}"
            yield Advice(change=f"{flag_of(field)} {ranks}", effect=effect, goal="fit")
            return


def _peak(budget: MemoryBudget | None) -> int | None:
    return budget.activation.peak.value if budget is not None and budget.activation is not None else None
