"""SGLang: pools of token slots, one for layers that grow without end, one for windows, one for states.

Source: sglang/srt 0.5.23: model_executor/pool_configurator.py, mem_cache/kv_cache_configurator.py,
configs/mamba_utils.py, arg_groups/overrides.py, arg_groups/fields/schedule.py.
"""

from collections.abc import Iterable
from fractions import Fraction
from math import ceil

from kvcalc.counting.cache import element_bytes
from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.memory.data import version_of
from kvcalc.engines.pages.dtypes import plain_state_dtype
from kvcalc.engines.pages.room import asked
from kvcalc.engines.sglang.compressed import compressed_capacity, full_cell, is_compressed
from kvcalc.engines.sglang.dtypes import cache_dtype
from kvcalc.engines.vllm.pages import index_bytes, token_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import (
    Attention,
    CrossAttention,
    LatentAttention,
    Mixer,
    ModelSpec,
    Recurrent,
)
from kvcalc.specs.versions import parse_version, since

__all__ = ["admitted", "asked", "capacity"]

SLIDING_SHARE = Fraction(8, 10)  # swa_full_tokens_ratio: slots of a windowed layer for each slot of a full one
STATE_SHARE = Fraction(9, 10)  # mamba_full_memory_ratio: state bytes for each byte of cache
STATES_KEPT = 3  # slots that one running request may need while prefixes are cached
# With the extra buffer of the overlap scheduler two more (MAMBA_CACHE_V2_ADDITIONAL_RATIO_OVERLAP). Which version made
# it the default is not known, but runs of 0.5.15 with more clients than places decode for no more than it leaves.
BUFFERED, BUFFERED_SINCE = 5, "0.5.15"
SPARSE_PAGE = 64  # tokens; a page is one token elsewhere
SHARED_INDEX_SINCE = "0.5.18"  # layers that read another's index keep none; where no version is said, they do
INDEX_COUNTED_SINCE = "0.5.4"  # before it, sparse attention's index was left out of the sums
CONVOLUTION_BYTES = 2


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]) -> Capacity:
    """Slots in `pool_bytes`: states first, the rest divided between full and windowed layers."""
    stage = max(stages, key=lambda layers: _growing_bytes(model, deployment, layers))
    state = max(_state_bytes(model, deployment, layers) for layers in stages)
    full, sliding = cells(model, deployment, stage)
    if is_compressed(model):
        return compressed_capacity(model, deployment, pool_bytes, stage)
    page = deployment.block_size or (SPARSE_PAGE if _sparse(model) else 1)
    pools: list[Pool] = []
    left = pool_bytes
    if state:
        slots, used = _state_slots(pool_bytes, state, deployment, bool(full or sliding))
        pools.append(_state_pool(slots, state, deployment))
        left -= used
    tokens = None
    if full or sliding:
        cell = full + SLIDING_SHARE * sliding if full else Fraction(sliding)
        tokens = max(0, int(left / cell)) // page * page
        windowed = int(tokens * SLIDING_SHARE) // page * page if full else tokens
        if sliding:
            pools.insert(0, _sliding_pool(model, windowed, sliding, page))
        if full:
            pools.insert(0, _full_pool(tokens, full, page))
    return Capacity(
        pools=tuple(pools),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=tokens,
        max_model_len=length_of(model, deployment),
        rule="max_total_num_tokens: slots of the layers that grow without end",
        rounding=_rounding(page, bool(full and sliding), state, deployment),
    )


def _rounding(page: int, windowed: bool, state: int, deployment: Deployment) -> str:
    said = [f"pages of {page} token{'s' if page > 1 else ''}"]
    if windowed:
        said.append(f"{float(SLIDING_SHARE)} windowed slots for each full one")
    if state:
        said.append(
            f"{float(STATE_SHARE)} bytes of state for each of cache, {states_per_request(deployment)} a request"
        )
    return ", ".join(said)


def _layers(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> Iterable[Mixer]:
    """The mixers of a stage. Draft layers are added as copies of the last that grows."""
    for group in model.groups:
        for _ in stage.intersection(group.layers):
            yield from group.mixers
    if deployment.num_speculative_tokens:
        for group in model.mtp:
            for _ in group.layers:
                yield from group.mixers


def cells(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> tuple[int, int]:
    """Bytes of one slot in all full layers, and in all windowed ones.

    A layer that reads another layer's cache has its slots all the same.

    Unit: bytes
    """
    dtype, tp = cache_dtype(model, deployment), deployment.tensor_parallel_size
    counts_index = since(version_of("sglang", deployment.engine_version), INDEX_COUNTED_SINCE)
    elides = deployment.engine_version is not None and since(
        parse_version(deployment.engine_version), SHARED_INDEX_SINCE
    )
    full = sliding = 0.0
    for mixer in _layers(model, deployment, stage):
        if isinstance(mixer, CrossAttention):
            raise KvcalcError(
                f"SGLang's pools for {mixer.kind} attention are not known", hint="use --engine vllm or --engine ideal"
            )
        size = token_bytes(mixer, dtype, tp)
        if isinstance(mixer, LatentAttention) and deployment.raw_latents:
            size = (mixer.kv_lora_rank + mixer.rope_head_dim) * element_bytes(dtype)
        if isinstance(mixer, LatentAttention | Attention) and mixer.indexer is not None:
            held = mixer.indexer.owns_cache or not elides
            size += _index_bytes(mixer) if counts_index and held else 0
        if getattr(mixer, "window", None) is None:
            full += size
        else:
            sliding += size
    return ceil(full), ceil(sliding)


def _index_bytes(mixer: LatentAttention | Attention) -> int:
    assert mixer.indexer is not None
    return index_bytes(mixer.indexer) if isinstance(mixer, LatentAttention) else mixer.indexer.head_dim * 2


def _growing_bytes(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> Fraction:
    if is_compressed(model):
        return Fraction(full_cell(model, stage, deployment))
    full, sliding = cells(model, deployment, stage)
    return full + SLIDING_SHARE * sliding


def _sparse(model: ModelSpec) -> bool:
    return any(isinstance(m, LatentAttention) and m.indexer for group in model.groups for m in group.mixers)


def local_state_bytes(mixer: Recurrent, model: ModelSpec, deployment: Deployment) -> int:
    """One layer's state: float32 unless the config or the flag says otherwise; 16-bit convolution columns, K − 1.

    Formula: conv_channels / tp * max(0, conv_kernel - 1) * 2 + state_elements / tp * element_bytes(dtype)
    Unit: bytes
    """
    dtype = plain_state_dtype(mixer, model, deployment)
    tp = deployment.tensor_parallel_size
    conv = mixer.conv_channels // tp * max(0, mixer.conv_kernel - 1) * CONVOLUTION_BYTES
    return int(conv + mixer.state_elements // tp * element_bytes(dtype))


def _state_bytes(model: ModelSpec, deployment: Deployment, stage: frozenset[int]) -> int:
    mixers = _layers(model, deployment, stage)
    return sum(local_state_bytes(mixer, model, deployment) for mixer in mixers if isinstance(mixer, Recurrent))


def states_per_request(deployment: Deployment) -> int:
    """Slots that a running request may need.

    Unit: slots
    """
    if deployment.enable_prefix_caching is False:
        return 1
    version = version_of("sglang", deployment.engine_version)
    return BUFFERED if since(version, BUFFERED_SINCE) else STATES_KEPT


def max_running_requests(held: Capacity, deployment: Deployment) -> int:
    """Requests that the scheduler admits at once on one replica, where nothing is asked for.

    512 for each whole-length request that fits, within 2,048 and 4,096; never more than half the slots are tokens of,
    nor than the states allow.

    Unit: requests
    """
    tokens, length = held.kv_cache_size_tokens or 0, held.max_model_len or 1
    asked = deployment.max_num_seqs or max(2048, min(4096, tokens * 512 // length))
    states = [pool.num_blocks // states_per_request(deployment) for pool in held.pools if pool.name == "state"]
    return min([asked, *([tokens // 2] if held.kv_cache_size_tokens is not None else []), *states])


def _state_slots(pool_bytes: int, state: int, deployment: Deployment, has_cache: bool) -> tuple[int, int]:
    """Slots, and the bytes they take: one row more is padding, and drafts keep a state for each drafted token.

    Source: _handle_max_mamba_cache in sglang/srt/mem_cache/kv_cache_configurator.py (0.5.23)
    """
    budget = Fraction(pool_bytes) * STATE_SHARE / (1 + STATE_SHARE) if has_cache else Fraction(pool_bytes)
    kept = states_per_request(deployment)
    drafted = deployment.num_speculative_tokens + 1 if deployment.num_speculative_tokens else 0
    slots = int((budget - state * (1 + drafted)) // (state * (1 + Fraction(drafted, kept))))
    if deployment.max_mamba_cache_size is not None:
        slots = deployment.max_mamba_cache_size
    elif deployment.max_num_seqs is not None and kept == 1:
        slots = min(slots, deployment.max_num_seqs)
    slots = max(0, slots)
    running = min(slots // kept, deployment.max_num_seqs or slots)
    used = (slots + 1) * state + (running + 1) * state * drafted
    return slots, min(used, pool_bytes)


def _state_pool(slots: int, state: int, deployment: Deployment) -> Pool:
    kept = states_per_request(deployment)
    return Pool(
        name="state",
        num_blocks=slots,
        block_bytes=state,
        groups=(Group(kind="state", layers=1, page_bytes=state, fixed_blocks=kept),),
    )


def _full_pool(tokens: int, cell: int, page: int) -> Pool:
    group = Group(kind="full", layers=1, page_bytes=cell * page, block_size=page, token_bytes=cell)
    return Pool(name="full", num_blocks=tokens // page, block_bytes=cell * page, groups=(group,))


def _sliding_pool(model: ModelSpec, tokens: int, cell: int, page: int) -> Pool:
    """A request holds its window and one page of the token that comes next."""
    windows = [m.window for g in model.groups for m in g.mixers if isinstance(m, Attention | LatentAttention)]
    window = max(window for window in windows if window is not None)
    group = Group(
        kind="sliding",
        layers=1,
        page_bytes=cell * page,
        block_size=page,
        most_tokens=window + page,
        token_bytes=cell,
        window=window,
    )
    return Pool(name="sliding", num_blocks=tokens // page, block_bytes=cell * page, groups=(group,))


def admitted(held: Capacity, deployment: Deployment) -> int | None:
    """What max_running_requests is where nobody said it.

    Unit: sequences
    """
    return max_running_requests(held, deployment)
