"""TensorRT-LLM: whole blocks of the memory that is left once the model is loaded.

A block holds its tokens in every layer, also in those that read a window of them: without a `max_attention_window` in
its options each layer's window is the longest sequence. Mamba states are reserved first, one for each sequence that may
run.

Source: KVCacheManager (max_attention_window_vec) and calculate_max_num_blocks in NVIDIA/TensorRT-LLM,
tensorrt_llm/_torch/pyexecutor/resource_manager.py; tokens_per_block and use_kv_cache_manager_v2 of KvCacheConfig in
tensorrt_llm/llmapi/llm_args.py
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
    """Whole blocks in `pool_bytes`."""
    block = deployment.block_size or TOKENS_PER_BLOCK
    stage = max(stages, key=lambda layers: _cell(model, deployment, layers))
    states = _reserved_states(model, deployment, stage)
    left = pool_bytes - sum(pool.num_blocks * pool.block_bytes for pool in states)
    cell = _cell(model, deployment, stage)
    pools = (*((_pool(cell, left, block),) if cell else ()), *states)
    return Capacity(
        pools=pools,
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=pools[0].num_blocks * block if cell else None,
        max_model_len=length_of(model, deployment),
        rule="max tokens in paged KV cache: whole blocks × tokens per block",
        rounding=f"blocks of {block} tokens",
    )


def _cell(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> int:
    """Bytes of one token in all layers of a stage."""
    dtype, tp = cache_dtype(model, deployment), deployment.tensor_parallel_size
    groups = [(group, len(stage.intersection(group.layers))) for group in model.groups]
    if deployment.num_speculative_tokens:
        groups += [(group, group.count) for group in model.mtp]
    return ceil(sum(count * _layer_bytes(mixer, dtype, tp) for group, count in groups for mixer in group.mixers))


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


def _pool(cell: int, left: int, block: int) -> Pool:
    size = cell * block
    group = Group(kind="full", layers=1, page_bytes=size, block_size=block, token_bytes=cell)
    return Pool(name="full", num_blocks=max(0, left) // size, block_bytes=size, groups=(group,))


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
