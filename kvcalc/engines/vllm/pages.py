"""A page: what one block holds of one layer. Mixers become pages, as vLLM's backends lay them out.

Source: vllm/v1/kv_cache_interface.py; for packed layouts vllm/v1/attention/backends/mla/flashmla_sparse.py (656, 584),
layers/attention/mla_attention.py (352), model_executor/models/deepseek_v2.py (132),
v1/attention/backends/triton_attn.py (a float32 scale for each head and side), v1/attention/backends/flashinfer.py
(nvfp4).
"""

from math import ceil
from typing import Literal

from kvcalc.counting.cache import element_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Frozen
from kvcalc.specs.model import (
    Attention,
    CrossAttention,
    Indexer,
    LatentAttention,
    Mixer,
    Recurrent,
)

Kind = Literal["full", "latent", "index", "sliding", "sliding_latent", "chunked", "cross", "state"]
GROWS_WITHOUT_END = ("full", "latent", "index")  # one class to the planner: they always need the same blocks
PER_TOKEN_HEAD = {"fp8_per_token_head": 1.0, "int8_per_token_head": 1.0, "int4_per_token_head": 0.5}
INDEX_SCALE_BLOCK = 128  # elements that share a float32 scale in an fp8 index
ROPE_BYTES = 2  # the packed latents keep the rotary part in 16 bits


class Page(Frozen):
    """One layer's share of a block."""

    kind: Kind
    page_bytes: int
    block_size: int | None = None  # tokens; None: a state
    window: int | None = None
    shape: tuple[int, ...] = ()  # heads and dimensions: only layers that are alike share a group

    @property
    def class_of(self) -> tuple[object, ...]:
        """Layers of one class always need the same number of blocks."""
        kind = "full" if self.kind in GROWS_WITHOUT_END else self.kind
        return (kind, self.window, self.block_size, self.page_bytes if self.kind == "state" else 0)


def head_bytes(head_dim: int, v_head_dim: int, cache_dtype: str) -> float:
    """Bytes of one head and one token, keys and values.

    Unit: bytes
    """
    if cache_dtype in PER_TOKEN_HEAD:
        return (head_dim + v_head_dim) * PER_TOKEN_HEAD[cache_dtype] + 2 * 4
    return (head_dim + v_head_dim) * element_bytes(cache_dtype)


def latent_bytes(mixer: LatentAttention, cache_dtype: str) -> float:
    """Bytes of one latent: sparse attention packs fp8 with its scales and a 16-bit rotary part.

    Unit: bytes
    """
    if cache_dtype == "fp8_ds_mla" or (mixer.indexer is not None and element_bytes(cache_dtype) == 1):
        return mixer.kv_lora_rank + mixer.kv_lora_rank // INDEX_SCALE_BLOCK * 4 + mixer.rope_head_dim * ROPE_BYTES
    if cache_dtype in ("nvfp4_ds_mla", "nvfp4"):
        return mixer.kv_lora_rank / 2 + mixer.kv_lora_rank / 16 + mixer.rope_head_dim
    return (mixer.kv_lora_rank + mixer.rope_head_dim) * element_bytes(cache_dtype)


def index_bytes(indexer: Indexer) -> int:
    """An index key in fp8 with its scale, whatever the cache's dtype.

    Formula: head_dim + ceil(head_dim / 128) * 4
    Unit: bytes
    """
    return indexer.head_dim + ceil(indexer.head_dim / INDEX_SCALE_BLOCK) * 4


def token_bytes(mixer: Mixer, cache_dtype: str, tp: int) -> float:
    """Bytes of one token in one layer on one rank, without its indexer.

    Unit: bytes
    """
    if isinstance(mixer, LatentAttention):
        return latent_bytes(mixer, cache_dtype)
    if isinstance(mixer, Attention):
        heads = max(1, mixer.kv_heads // tp)
        return heads * head_bytes(mixer.head_dim, mixer.v_head_dim, cache_dtype)
    if isinstance(mixer, CrossAttention):
        return max(1, mixer.kv_heads // tp) * head_bytes(mixer.head_dim, mixer.head_dim, cache_dtype)
    return 0


def mixer_pages(mixer: Mixer, cache_dtype: str, tp: int, block_size: int) -> list[Page]:
    """The pages of one attention layer; a state is `hybrid.state_page`."""
    size = token_bytes(mixer, cache_dtype, tp)
    found: list[Page] = []
    if isinstance(mixer, CrossAttention) or (isinstance(mixer, Attention | LatentAttention) and mixer.owns_cache):
        found.append(_attention_page(mixer, ceil(size * block_size), block_size))
    indexer = mixer.indexer if isinstance(mixer, (Attention, LatentAttention)) else None
    if indexer is not None and indexer.owns_cache:
        # Beside a latent the index is always fp8; beside keys and values it is 16 bits wide.
        width = index_bytes(indexer) if isinstance(mixer, LatentAttention) else indexer.head_dim * 2
        found.append(Page(kind="index", page_bytes=width * block_size, block_size=block_size, shape=(width,)))
    return found


def _attention_page(mixer: Attention | LatentAttention | CrossAttention, page_bytes: int, block_size: int) -> Page:
    kind: Kind
    shape: tuple[int, ...]
    if isinstance(mixer, LatentAttention):
        kind, window = "latent" if mixer.window is None else "sliding_latent", mixer.window
        shape = (mixer.kv_lora_rank + mixer.rope_head_dim,)
    elif isinstance(mixer, CrossAttention):
        kind, window, shape = "cross", mixer.source_tokens, (mixer.kv_heads, mixer.head_dim)
    else:
        kind = "full" if mixer.window is None else "chunked" if mixer.chunked else "sliding"
        window, shape = mixer.window, (mixer.kv_heads, mixer.head_dim, mixer.v_head_dim)
    return Page(kind=kind, page_bytes=page_bytes, block_size=block_size, window=window, shape=shape)


def refuse_unserved(mixer: Mixer) -> None:
    """vLLM has no cache for these; an answer would be a guess."""
    unserved = ("rg_lru", "rwkv", "mlstm", "slstm")
    if isinstance(mixer, Recurrent) and mixer.family.startswith(unserved):
        raise KvcalcError(
            f"vLLM does not serve {mixer.family} layers", hint="use --engine ideal for what the mathematics needs"
        )
