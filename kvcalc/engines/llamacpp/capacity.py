"""llama.cpp: cells, allocated whole at start-up: cells × streams × layers × row.

Read from its start-up logs and llama-kv-cache*.cpp: a stream of cells for each sequence, cells in multiples of 256,
windowed layers with a window and a micro-batch of cells, states in float32, latents without values.

Source: llama_kv_cache and llama_kv_cache_iswa in ggml-org/llama.cpp, src/llama-kv-cache.cpp and
src/llama-kv-cache-iswa.cpp; llama_memory_recurrent in src/llama-memory-recurrent.cpp; its start-up logs
"""

from kvcalc.counting.placement import host_part
from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.llamacpp.asked import asked_bytes, asked_capacity
from kvcalc.engines.llamacpp.dtypes import key_value_types
from kvcalc.engines.llamacpp.rows import CELLS, layers_of, micro_batch_of, padded, row_bytes, state_bytes
from kvcalc.engines.pages.room import admitted
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec, Recurrent

__all__ = ["admitted", "asked", "capacity"]


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]) -> Capacity:
    """Cells in `pool_bytes`, sequences taking streams of their own."""
    stages = _on_gpu(model, deployment, stages)
    found = [_groups(model, deployment, stage) for stage in stages]
    length = length_of(model, deployment)
    groups = max(found, key=lambda groups: sum(group.blocks(length or CELLS) for group in groups))
    if deployment.ctx_size is not None:
        return asked_capacity(model, deployment, pool_bytes, stages, groups)
    pool = Pool(name="cells", num_blocks=pool_bytes, block_bytes=1, groups=groups)
    tokens = None
    if any(group.block_size for group in groups) and length:
        sequences = pool.concurrency(length)
        tokens = None if sequences is None else int(sequences * length)
    return Capacity(
        pools=(pool,),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=tokens,
        max_model_len=length,
        rule="cells of all streams: pool × n_ctx / bytes of one stream",
        rounding=f"cells in multiples of {CELLS}, windows with a micro-batch beside them, states in float32",
    )


def _groups(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> tuple[Group, ...]:
    """One stream. GPUs that share a model split its layers' rows evenly."""
    types, tp = key_value_types(deployment), deployment.tensor_parallel_size
    micro_batch = micro_batch_of(deployment)
    rows: dict[int | None, int] = {}
    state = 0
    for group, count in layers_of(model, deployment, stage):
        for mixer in group.mixers:
            if isinstance(mixer, Recurrent):
                state += count * state_bytes(mixer, deployment.num_speculative_tokens)
            elif count:
                window = getattr(mixer, "window", None)
                rows[window] = rows.get(window, 0) + count * row_bytes(mixer, types)
    found = [_rows(window, -(-size // tp), micro_batch) for window, size in rows.items() if size]
    if state:
        found.append(Group(kind="state", layers=1, page_bytes=state, fixed_blocks=1, weight=-(-state // tp)))
    return tuple(found)


def _rows(window: int | None, row: int, micro_batch: int) -> Group:
    return Group(
        kind="full" if window is None else "sliding",
        layers=1,
        page_bytes=row * CELLS,
        block_size=CELLS,
        most_tokens=None if window is None else padded(window + micro_batch),
        weight=row * CELLS,
        token_bytes=row,
        window=window,
    )


def asked(model: ModelSpec, deployment: Deployment, stages: list[frozenset[int]]) -> int | None:
    """What -c and -np ask for; None without -c.

    Unit: bytes per GPU
    """
    return None if deployment.ctx_size is None else asked_bytes(model, deployment, _on_gpu(model, deployment, stages))


def _on_gpu(model: ModelSpec, deployment: Deployment, stages: list[frozenset[int]]) -> list[frozenset[int]]:
    """The layers of each stage that are offloaded: the cache of the others is with the CPU."""
    part = host_part(model, deployment)
    if part is None:
        return stages
    return [frozenset(layer for layer in stage if layer >= part.first) for stage in stages]
