"""The working of a size: from the memory to the pool, and what the pool holds."""

from collections.abc import Iterator, Mapping
from math import inf

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain, figure_of
from kvcalc.engines.capacity import Pool
from kvcalc.engines.memory.budget import NOTHING
from kvcalc.formulas import cache, paging, step
from kvcalc.results.base import Figure, Range
from kvcalc.units import format_count

RULES = "the engine's own rules: docs/explanation/memory.md"


def size_working(deployed: Deployed, contexts: tuple[int, ...]) -> tuple[Figure, ...]:
    """Figures whose formula is the engine's rule; where an engine rounds otherwise, the figure is left out."""
    held = _ideal if deployed.replica.ideal else _blocks
    figures = (*_memory(deployed), *(one for context in contexts for one in held(deployed, context)))
    return tuple({one.name: one for one in figures}.values())


def alone_working(steps: Mapping[int, Range | None]) -> Iterator[Figure]:
    """Tokens/s of one sequence alone at each context, whose step takes these seconds; the slowest step is the low."""
    for context, seconds in steps.items():
        for end, taken in (("", "value"), (", low", "high"), (", high", "low")) if seconds else ():
            name = f"one alone at {format_count(context)}{end}"
            yield explain(step.throughput, name, batch=1, step_time_s=getattr(seconds, taken))


def _memory(deployed: Deployed) -> Iterator[Figure]:
    """The engine's share, what it holds beside weights and cache, and the pool that is left."""
    budget = deployed.budget
    share = deployed.gpu_memory_utilization
    if share is not None and int(share * budget.total) == budget.requested:
        inputs = {"gpu_memory_utilization": share, "memory_bytes": budget.total}
        yield figure_of("engine's share", "floor(gpu_memory_utilization * memory_bytes)", inputs, "bytes", RULES)
    peak = budget.activation.peak if budget.activation else NOTHING
    terms = {
        "lora_bytes": budget.lora, "workspace_bytes": budget.workspace, "reserve_bytes": budget.reserve,
        "outside_pytorch_bytes": budget.non_torch, "activation_bytes": peak,
        "graphs_bytes": budget.graphs if budget.graphs_charged else NOTHING,
    }  # fmt: skip
    if budget.given_overhead is None and (held := {name: one.value for name, one in terms.items() if one.high}):
        yield figure_of("memory beside weights and cache", " + ".join(held), held, "bytes", RULES)
    if deployed.pool_bytes is not None and not deployed.budget.pool_given:
        yield explain(
            cache.kv_memory_left,
            name="cache pool",
            memory_bytes=deployed.budget.requested,
            weight_bytes=deployed.budget.weights,
            other_bytes=deployed.budget.overhead.value,
        )


def _ideal(deployed: Deployed, context: int) -> Iterator[Figure]:
    """Bytes over bytes."""
    pool, profile = deployed.pool_bytes, deployed.profile
    if pool is None:
        return
    if len(profile.groups) == 1 and profile.groups[0].window is None and not profile.fixed_bytes:
        per_token = profile.bytes_per_token
        yield explain(cache.kv_tokens_that_fit, name="tokens", kv_memory_bytes=pool, kv_bytes_per_token=per_token)
    if needed := profile.stored(deployed.slots(context)):
        yield explain(cache.max_batch, _sequences(context), kv_memory_bytes=pool, cache_bytes_per_sequence=needed)


def _blocks(deployed: Deployed, context: int) -> Iterator[Figure]:
    """Blocks over blocks, in the pool that is full first."""
    held, longest = deployed.capacity, deployed.max_model_len
    if held is None or not held.pools:
        return
    slots = deployed.slots(context)
    pool = _first_full(held.pools, slots)
    group = pool.groups[0]
    size = group.block_size
    if size is not None and len(pool.groups) == 1 and group.window is None and group.token_bytes:
        in_pool = explain(
            cache.kv_blocks_that_fit,
            name="blocks in the pool",
            kv_memory_bytes=held.pool_bytes,
            kv_bytes_per_token=group.token_bytes,
            block_size=size,
        )
        if in_pool.value == pool.num_blocks:
            yield in_pool
            name = f"blocks of a sequence of {format_count(slots)}"
            yield explain(paging.blocks_for_tokens, name, tokens=slots, block_size=size)
    sequences = explain(
        paging.sequences_in_blocks,
        _sequences(context),
        num_blocks=pool.num_blocks,
        unusable_blocks=pool.unusable_blocks,
        blocks_per_sequence=pool.blocks(slots),
    )
    if sequences.value == deployed.max_batch(context):
        yield sequences
    if longest is not None:
        pool = _first_full(held.pools, longest)
        needed = pool.blocks(longest)
        yield explain(paging.max_concurrency, "concurrency", num_blocks=pool.num_blocks, blocks_per_sequence=needed)


def _first_full(pools: tuple[Pool, ...], context: int) -> Pool:
    return min(pools, key=lambda pool: pool.concurrency(context) or inf)


def _sequences(context: int) -> str:
    return f"sequences at {format_count(context)}"
