"""Does it fit: the engine starts, and the batch that was asked for has its cache.

Memory before the cache is a range, so the pool is one: what holds at its low end fits, what does not hold at its high
end does not, and what lies between may.
"""

from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint
from kvcalc.engines import capacity
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.memory.budget import End, MemoryBudget
from kvcalc.results.base import Fit
from kvcalc.units import format_bytes, format_count, format_things


class Verdict(NamedTuple):
    """`fits` is None where it may."""

    fit: Fit
    reason: str | None

    @property
    def fits(self) -> bool | None:
        return {"fits": True, "may_fit": None, "does_not_fit": False}[self.fit]


def verdict(deployed: Deployed, point: OperatingPoint, batch: int | None = None) -> Verdict:
    """The verdict over the whole range of the pool, with what decides it.

    Args:
        deployed: a question put on its GPUs.
        point: the context at which the batch must fit.
        batch: sequences, in place of those that were asked for, as a sweep needs it.
    """
    worst = unfit_reason(deployed, point, end="low", batch=batch)
    if worst is None:
        return Verdict("fits", None)
    best = unfit_reason(deployed, point, end="high", batch=batch)
    if best is not None:
        # The middle of the range says by how much, in figures that stand on the page.
        return Verdict("does_not_fit", unfit_reason(deployed, point, batch=batch) or best)
    return Verdict("may_fit", _undecided(deployed, worst))


def _undecided(deployed: Deployed, worst: str) -> str:
    pool = deployed.budget.pool
    assert pool is not None
    low, high = format_bytes(max(0, pool.low)), format_bytes(max(0, pool.high))
    return f"the pool lies between {low} and {high}, and at its low end {worst}"


def unfit_reason(
    deployed: Deployed, point: OperatingPoint, pool_seen: bool = False, end: End = "value", batch: int | None = None
) -> str | None:
    """Why it does not fit, at one end of the pool's range; None: the engine starts and the batch has its cache.

    Args:
        deployed: a question put on its GPUs.
        point: the context at which the batch that was asked for must fit.
        pool_seen: the pool is one that an engine made, so that the card does hold it.
        end: of the pool.
        batch: sequences, in place of those that were asked for.
    """
    budget, wanted = deployed.budget, batch or deployed.question.workload.batch
    said = _refused(deployed, wanted)
    if said is not None:
        return said
    if budget.pool is None:
        return budget.reason or "the pool is not predicted"
    pool = budget.pool.at(end)
    if pool <= 0:
        return f"weights and overhead exceed the memory by {format_bytes(-pool)} per GPU"
    if not pool_seen and not budget.starts_at(end):
        return _too_full(budget)
    held = deployed.capacity if end == "value" else capacity(deployed.model, deployed.resolved, pool)
    assert held is not None
    return _sequence_too_long(deployed, held) or _batch_too_large(deployed, held, point.context, wanted or 1)


def _refused(deployed: Deployed, wanted: int | None) -> str | None:
    """What no amount of memory mends: a length that the model has not, more sequences than are admitted."""
    asked, longest = deployed.deployment.max_model_len, deployed.model.max_context
    if asked and longest and asked > longest and not deployed.engine.STARTS_BEYOND:
        return (
            f"max_model_len = {format_count(asked)} is above the model's maximum of {format_count(longest)}: "
            "the engine does not start"
        )
    admitted = deployed.max_num_seqs
    if wanted and admitted and wanted > admitted:
        return f"{format_count(wanted)} sequences are asked, and max_num_seqs admits {format_count(admitted)}"
    return None


def _sequence_too_long(deployed: Deployed, held: Capacity) -> str | None:
    """vLLM does not start where one sequence of max_model_len has no room."""
    length = deployed.max_model_len
    if length is None or not deployed.engine.ROOM_FOR_LONGEST:
        return None
    concurrency = held.max_concurrency(length)
    if concurrency is not None and concurrency < 1:
        longest = format_count(held.estimated_max_model_len(length))
        return f"one sequence of max_model_len = {format_count(length)} needs more; {longest} would fit"
    if held.checked is not None and not held.checked.fits(length):
        asked = format_bytes(held.checked.needed_bytes(length))
        version = f"vLLM {deployed.budget.engine_version}"
        return f"{version} asks one stage to hold the layers of all: {asked}; 0.17 and later do not"
    return None


def _batch_too_large(deployed: Deployed, held: Capacity, context: int, wanted: int) -> str | None:
    fitting = held.max_batch(deployed.slots(context))
    if fitting is None or fitting >= wanted:
        return None
    return f"{format_things(fitting, 'sequence')} of {format_count(context)} fit, {format_count(wanted)} asked"


def _too_full(budget: MemoryBudget) -> str:
    """Why a card cannot hold what was asked of it."""
    if budget.request_table > max(budget.reserve.value, 0):
        table, kept = format_bytes(budget.request_table), format_bytes(budget.reserve.value)
        return f"the table from requests to tokens takes {table}, and only {kept} are kept back for it and the rest"
    besides = format_bytes(budget.overhead.value + budget.initial_use.value)
    if budget.pool_given and budget.pool is not None:
        held = f"{format_bytes(budget.weights)} of weights, a pool of {format_bytes(budget.pool.value)}"
        return f"{held} and {besides} besides exceed the card's {format_bytes(budget.total)}"
    more = format_bytes(budget.card.value - budget.requested)
    share = format_bytes(budget.requested)
    return f"the engine's share of {share} and {more} outside it exceed the card's {format_bytes(budget.total)}"
