"""TensorRT-LLM: whole blocks of the memory that is left once the model is loaded.

Each window size has blocks of its own; the memory is divided by what a sequence of the longest length needs of each.
Mamba states are reserved first, one for each sequence that may run.

Source: calculate_max_num_blocks in NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/resource_manager.py;
tokens_per_block of KvCacheConfig in tensorrt_llm/llmapi/llm_args.py
"""

from math import ceil

from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.pages.dtypes import engine_dtype
from kvcalc.engines.pages.room import admitted, asked
from kvcalc.engines.trtllm.dtypes import cache_dtype
from kvcalc.engines.vllm.hybrid import local_state_bytes
from kvcalc.engines.vllm.pages import index_bytes, token_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    Mixer,
    ModelSpec,
    Recurrent,
)

__all__ = ["admitted", "asked", "capacity"]

TOKENS_PER_BLOCK = 32


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]) -> Capacity:
    """Whole blocks in `pool_bytes`, for each window size."""
    length = length_of(model, deployment)
    stage = max(stages, key=lambda layers: sum(_cells(model, deployment, layers).values()))
    found = _cells(model, deployment, stage)
    states = _reserved_states(model, deployment, stage)
    left = pool_bytes - sum(pool.num_blocks * pool.block_bytes for pool in states)
    shares = {window: cell * min(window or length or 1, length or window or 1) for window, cell in found.items()}
    pools = [_pool(window, cell, left, shares, deployment) for window, cell in found.items()]
    full = [pool for pool in pools if pool.name == "full"] or pools
    tokens = full[0].num_blocks * (deployment.block_size or TOKENS_PER_BLOCK) if full else None
    return Capacity(
        pools=(*full, *(pool for pool in pools if pool not in full), *states),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=tokens,
        max_model_len=length,
        rule="max tokens in paged KV cache: whole blocks × tokens per block",
        rounding=f"blocks of {deployment.block_size or TOKENS_PER_BLOCK} tokens",
    )


def _cells(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> dict[int | None, int]:
    """Bytes of one token in all layers of a window size; None: no window."""
    dtype, tp = cache_dtype(model, deployment), deployment.tensor_parallel_size
    found: dict[int | None, float] = {}
    groups = [(group, len(stage.intersection(group.layers))) for group in model.groups]
    if deployment.num_speculative_tokens:
        groups += [(group, group.count) for group in model.mtp]
    for group, count in groups:
        for mixer in group.mixers:
            size = count * _layer_bytes(mixer, dtype, tp)
            if size:
                window = getattr(mixer, "window", None)
                found[window] = found.get(window, 0) + size
    return {window: ceil(size) for window, size in found.items()}


def _layer_bytes(mixer: Mixer, dtype: str, tp: int) -> float:
    if isinstance(mixer, CompressedAttention | CrossAttention):
        raise KvcalcError(
            f"TensorRT-LLM's blocks for {mixer.kind} attention are not known", hint="use --engine vllm or ideal"
        )
    if isinstance(mixer, Recurrent):
        return 0
    size = token_bytes(mixer, dtype, tp) if mixer.owns_cache else 0
    sparse = isinstance(mixer, LatentAttention) and mixer.indexer is not None and mixer.indexer.owns_cache
    if sparse:
        assert isinstance(mixer, LatentAttention | Attention)
        assert mixer.indexer is not None
        size += index_bytes(mixer.indexer)
    return size


def _pool(window: int | None, cell: int, left: int, shares: dict[int | None, int], deployment: Deployment) -> Pool:
    block = deployment.block_size or TOKENS_PER_BLOCK
    share = left * shares[window] // sum(shares.values())
    group = Group(
        kind="full" if window is None else "sliding",
        layers=1,
        page_bytes=cell * block,
        block_size=block,
        most_tokens=window,
        extra_blocks=0 if window is None else 1,
        token_bytes=cell,
        window=window,
    )
    name = "full" if window is None else f"window of {window}"
    return Pool(name=name, num_blocks=max(0, share) // (cell * block), block_bytes=cell * block, groups=(group,))


def _reserved_states(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> tuple[Pool, ...]:
    dtype = engine_dtype(model, deployment)
    state = sum(
        len(stage.intersection(group.layers)) * local_state_bytes(mixer, model, deployment, dtype)
        for group in model.groups
        for mixer in group.mixers
        if isinstance(mixer, Recurrent)
    )
    if not state:
        return ()
    if deployment.max_num_seqs is None:
        raise KvcalcError(
            "TensorRT-LLM reserves a state for each sequence that may run, and how many is not said",
            hint="give --max-num-seqs (its max_batch_size)",
        )
    group = Group(kind="state", layers=1, page_bytes=state, fixed_blocks=1)
    return (Pool(name="state", num_blocks=deployment.max_num_seqs, block_bytes=state, groups=(group,)),)
