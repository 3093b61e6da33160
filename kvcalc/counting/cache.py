"""ModelSpec → CacheProfile: what one sequence keeps, and what a decode step reads of it.

    cache bytes of one sequence at context C  =  fixed  +  Σ_groups bytes_per_token · min(C, window)

Full attention has no window, a sliding or chunked layer has one, a recurrent layer has only a fixed state, and a
layer that reads another layer's cache has nothing. Engines round this (blocks, padded groups); these counts do not.

Source: Pope et al. 2023, section 3.3, and Ainslie et al. 2023 (GQA) for keys and values; DeepSeek-AI 2024
(DeepSeek-V2), section 2.1, for latents; Beltagy et al. 2020 (Longformer), section 3.1, for windows; state_shape of
MambaStateShapeCalculator in vllm/model_executor/layers/mamba/mamba_utils.py for states
"""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import DTYPE_ALIASES, ELEMENT_BITS
from kvcalc.specs.model import (
    Attention,
    CompressedAttention,
    CrossAttention,
    LatentAttention,
    LayerGroup,
    Mixer,
    ModelSpec,
    Recurrent,
)

ONE_GPU = Layout()
CACHE_DTYPES = ("bf16", "fp16", "fp32", "fp8", "int8", "int4", "nvfp4")
# Bytes per element of cache types that keep scales: nvfp4 one of fp8 for 16 elements, mxfp8 one byte for 32; GGML's
# types one (q4_1, q5_1: two) of 16 bits for 32. The packed latents are 656 and 352 B for 576 elements.
_CACHE_BYTES = {
    "nvfp4": 0.5 + 1 / 16, "mxfp8": 1 + 1 / 32,
    "fp8_ds_mla": 656 / 576, "nvfp4_ds_mla": 352 / 576,
    "fp8_per_token_head": 1, "int8_per_token_head": 1, "int4_per_token_head": 0.5,
    "f32": 4, "f16": 2, "q8_0": 34 / 32, "q5_1": 24 / 32, "q5_0": 22 / 32, "q4_1": 20 / 32, "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}  # fmt: skip


class CacheGroup(NamedTuple):
    """Layers whose cache grows alike. Bytes are of all `layers` together, for one sequence, on one GPU."""

    kind: str  # full | sliding | chunked | latent | compressed | cross | or a recurrent family
    layers: int
    bytes_per_token: float = 0  # stored per token of context, up to the window
    window: int | None = None
    fixed_bytes: int = 0  # state, or an encoder's keys and values
    index_bytes_per_token: float = 0  # the part of bytes_per_token that the indexer reads whole
    read_limit: int | None = None  # sparse attention reads at most this many tokens of the rest

    def stored(self, context: float) -> float:
        tokens = context if self.window is None else min(context, self.window)
        return self.fixed_bytes + self.bytes_per_token * tokens

    def read(self, context: float) -> float:
        tokens = context if self.window is None else min(context, self.window)
        limit = tokens if self.read_limit is None else min(tokens, self.read_limit)
        whole = self.index_bytes_per_token * tokens
        return self.fixed_bytes + whole + (self.bytes_per_token - self.index_bytes_per_token) * limit


class CacheProfile(NamedTuple):
    """The one thing the rest of the program sees of a model's cache."""

    groups: tuple[CacheGroup, ...]

    @property
    def fixed_bytes(self) -> int:
        return sum(group.fixed_bytes for group in self.groups)

    @property
    def bytes_per_token(self) -> float:
        """Growth once every window is full: the unbounded layers."""
        return _whole(sum(group.bytes_per_token for group in self.groups if group.window is None))

    @property
    def bytes_per_token_at_start(self) -> float:
        """Growth while every window is still filling."""
        return _whole(sum(group.bytes_per_token for group in self.groups))

    def stored(self, context: float) -> float:
        return _whole(sum(group.stored(context) for group in self.groups))

    def read(self, context: float) -> float:
        return _whole(sum(group.read(context) for group in self.groups))


def _whole(value: float) -> float:
    return int(value) if float(value).is_integer() else value


@cache
def element_bytes(dtype: str) -> float:
    """Bytes of one cached element, its group scales included.

    Two types, `q8_0,f16`, are those of keys and of values, which are as wide as each other: the mean.

    Raises:
        KvcalcError: no such cache type.

    Unit: bytes
    Source: block_q8_0 and its like in ggml-org/llama.cpp, ggml/src/ggml-common.h; real_page_size_bytes in
    vllm/v1/kv_cache_interface.py

    >>> element_bytes("bf16"), element_bytes("fp8"), element_bytes("nvfp4"), element_bytes("q8_0,f16")
    (2, 1, 0.5625, 1.53125)
    """
    if "," in dtype:
        key, _, value = dtype.partition(",")
        return (element_bytes(key) + element_bytes(value)) / 2
    name = DTYPE_ALIASES.get(dtype, dtype)
    if name in _CACHE_BYTES:
        return _CACHE_BYTES[name]
    if name not in ELEMENT_BITS:
        known = ", ".join(CACHE_DTYPES)
        raise KvcalcError(f"unknown cache dtype {dtype!r}", hint=f"one of: {known}")
    return _whole(ELEMENT_BITS[name] / 8)


def cache_profile(
    model: ModelSpec,
    cache_dtype: str = "bf16",
    state_dtype: str | None = None,
    layout: Layout = ONE_GPU,
    layers: Iterable[int] | None = None,
) -> CacheProfile:
    """The cache of one sequence on one GPU, as the mathematics needs it: elements × dtype.

    `state_dtype` overrides the recurrent state's (else the config's, else fp32); convolution columns are kept in the
    model's dtype. `layers` restricts to a pipeline stage. KV heads divide over tensor-parallel ranks and are
    replicated beyond their number; latents and indexer keys are whole on every rank.
    """
    chosen = None if layers is None else set(layers)
    merged: dict[tuple[object, ...], CacheGroup] = {}
    for group in model.groups:
        count = group.count if chosen is None else len(chosen.intersection(group.layers))
        if count == 0:
            continue
        for one in _groups_of(group, model, cache_dtype, state_dtype, layout):
            key = (one.kind, one.window, one.read_limit, one.bytes_per_token, one.fixed_bytes)
            seen = merged.get(key)
            layers_now = count + (seen.layers if seen else 0)
            merged[key] = one._replace(layers=layers_now)
    return CacheProfile(groups=tuple(_times(group) for group in merged.values()))


def _times(group: CacheGroup) -> CacheGroup:
    """From one layer's bytes to all layers'."""
    return group._replace(
        bytes_per_token=_whole(group.bytes_per_token * group.layers),
        index_bytes_per_token=_whole(group.index_bytes_per_token * group.layers),
        fixed_bytes=group.fixed_bytes * group.layers,
    )


def _groups_of(
    group: LayerGroup, model: ModelSpec, cache_dtype: str, state_dtype: str | None, layout: Layout
) -> list[CacheGroup]:
    """One layer's contributions."""
    found: list[CacheGroup] = []
    for mixer in group.mixers:
        found.extend(mixer_cache(mixer, model, cache_dtype, state_dtype, layout))
    return found


def mixer_cache(
    mixer: Mixer, model: ModelSpec, cache_dtype: str, state_dtype: str | None = None, layout: Layout = ONE_GPU
) -> list[CacheGroup]:
    """What one layer with this mixer keeps for one sequence on one GPU."""
    size = element_bytes(cache_dtype)
    tp = layout.tensor_parallel_size
    if isinstance(mixer, Attention):
        if not mixer.owns_cache:
            return []
        heads = max(1, mixer.kv_heads // tp)
        index = mixer.indexer.head_dim * size if mixer.indexer and mixer.indexer.owns_cache else 0
        per_token = heads * (mixer.head_dim + mixer.v_head_dim) * size + index
        return [_growing(mixer.pattern, per_token, mixer.window, index, mixer.indexer.top_k if mixer.indexer else None)]
    if isinstance(mixer, LatentAttention):
        index = mixer.indexer.head_dim * size if mixer.indexer and mixer.indexer.owns_cache else 0
        own = (mixer.kv_lora_rank + mixer.rope_head_dim) * size if mixer.owns_cache else 0
        if not (own or index):
            return []
        return [_growing("latent", own + index, mixer.window, index, mixer.indexer.top_k if mixer.indexer else None)]
    if isinstance(mixer, CompressedAttention):
        return _compressed(mixer, size)
    if isinstance(mixer, CrossAttention):
        heads = max(1, mixer.kv_heads // tp)
        fixed = int(2 * heads * mixer.head_dim * mixer.source_tokens * size)
        return [CacheGroup(kind="cross", layers=1, fixed_bytes=fixed)]
    return [_recurrent(mixer, model, state_dtype, tp)]


def _growing(kind: str, per_token: float, window: int | None, index: float, limit: int | None) -> CacheGroup:
    return CacheGroup(
        kind=kind,
        layers=1,
        bytes_per_token=_whole(per_token),
        window=window,
        index_bytes_per_token=_whole(index),
        read_limit=limit,
    )


def _compressed(mixer: CompressedAttention, size: float) -> list[CacheGroup]:
    found = [_growing("sliding", mixer.head_dim * size, mixer.window, 0, None)]
    if mixer.ratio:
        index = (mixer.indexer.head_dim if mixer.indexer else 0) * size / mixer.ratio
        per_token = mixer.head_dim * size / mixer.ratio + index
        limit = mixer.indexer.top_k * mixer.ratio if mixer.indexer else None
        history = _growing("compressed", per_token, None, index, limit)
        found.append(history._replace(fixed_bytes=mixer.state_elements * 4))
    return found


def _recurrent(mixer: Recurrent, model: ModelSpec, state_dtype: str | None, tp: int) -> CacheGroup:
    return CacheGroup(kind=mixer.family, layers=1, fixed_bytes=int(state_bytes(mixer, model, state_dtype) / tp))


def state_bytes(mixer: Recurrent, model: ModelSpec, state_dtype: str | None = None) -> float:
    """What a recurrent layer keeps of one sequence, all ranks together: its state, and K − 1 convolution columns in
    the model's dtype.

    Formula: state_elements * element_bytes(state) + conv_channels * max(0, conv_kernel - 1) * element_bytes(model)
    Unit: bytes of one layer and sequence
    """
    state = mixer.state_elements * element_bytes(state_type(mixer, model, state_dtype))
    columns = mixer.conv_channels * max(0, mixer.conv_kernel - 1)
    return state + columns * element_bytes(model.dtype)


def state_type(mixer: Recurrent, model: ModelSpec, asked: str | None = None) -> str:
    """Element type of recurrent state: what was asked for, else the config's, else fp32."""
    return asked or mixer.state_dtype or model.state_dtype or "fp32"
