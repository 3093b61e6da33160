"""Why a deployment does not fit, in words."""

from kvcalc.answers.deployed import Deployed, OperatingPoint
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.units import format_bytes, format_count


def unfit_reason(deployed: Deployed, point: OperatingPoint, pool_seen: bool = False) -> str | None:
    """None: the engine starts and the batch has its cache.

    Args:
        deployed: a question put on its GPUs.
        point: the context at which the batch that was asked for must fit.
        pool_seen: the pool is one that an engine made, so that the card does hold it.
    """
    budget, held = deployed.budget, deployed.capacity
    if budget.pool is None or held is None:
        return budget.reason or "the pool is not predicted"
    if budget.pool.value <= 0:
        return f"weights and overhead exceed the memory by {format_bytes(-budget.pool.value)} per GPU"
    if budget.starts is False and not pool_seen:
        return _too_full(budget)
    return _sequence_too_long(deployed, held) or _batch_too_large(deployed, held, point.context)


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


def _batch_too_large(deployed: Deployed, held: Capacity, context: int) -> str | None:
    fitting, wanted = held.max_batch(context), deployed.question.workload.batch or 1
    if fitting is None or fitting >= wanted:
        return None
    return f"{format_count(fitting)} sequences of {format_count(context)} fit, {format_count(wanted)} asked"


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
