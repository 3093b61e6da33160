"""Small models built by hand, with the dimensions of public configs."""

from kvcalc.engines.capacity import Capacity
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.model import (
    Attention,
    CompressedAttention,
    Indexer,
    LatentAttention,
    LayerGroup,
    Mixer,
    ModelSpec,
    Recurrent,
)


def filled(held: Capacity) -> int:
    """Bytes of a pool that whole blocks fill."""
    return sum(pool.num_blocks * pool.block_bytes for pool in held.pools)


def model(*groups: tuple[int, Mixer], max_context: int | None = 8192, **more: object) -> ModelSpec:
    """Groups of (number of layers, mixer), in order."""
    start, found = 0, []
    for count, mixer in groups:
        found.append(LayerGroup(layers=tuple(range(start, start + count)), mixers=(mixer,)))
        start += count
    fields: dict[str, object] = {"name": "test", "family": "test", "hidden": 4096, "vocab": 128256} | more
    return build(ModelSpec, {**fields, "groups": tuple(found), "max_context": max_context})


def gqa(kv_heads: int, head_dim: int, query_heads: int = 32, window: int | None = None, **more: object) -> Attention:
    fields = {"query_heads": query_heads, "kv_heads": kv_heads, "head_dim": head_dim, "v_head_dim": head_dim}
    return build(Attention, {**fields, "window": window, **more})


def latent(index: bool = False, owns_index: bool = True, heads: int = 128) -> LatentAttention:
    """DeepSeek-V3's latent of 512 + 64, with V3.2's index."""
    indexer = Indexer(heads=64, head_dim=128, top_k=2048, owns_cache=owns_index) if index else None
    return LatentAttention(
        query_heads=heads, kv_lora_rank=512, rope_head_dim=64, nope_head_dim=128, v_head_dim=128, indexer=indexer
    )


def delta_net(key_heads: int, value_heads: int, width: int = 128) -> Recurrent:
    """Gated delta net: convolution over queries, keys and values, a state of width × width for each value head."""
    return Recurrent(
        family="gated_delta_net",
        conv_channels=(2 * key_heads + value_heads) * width,
        conv_kernel=4,
        heads=value_heads,
        state_elements=value_heads * width * width,
    )


def mamba2(heads: int, width: int, state: int, groups: int) -> Recurrent:
    return Recurrent(
        family="mamba2",
        conv_channels=heads * width + 2 * groups * state,
        conv_kernel=4,
        heads=heads,
        state_elements=heads * width * state,
        groups=groups,
        group_channels=2 * state,
    )


def compressed(ratio: int) -> CompressedAttention:
    """DeepSeek-V4-Flash's layers: an index where four tokens become one."""
    indexer = Indexer(heads=64, head_dim=128, top_k=512) if ratio == 4 else None
    return CompressedAttention(query_heads=64, head_dim=512, rope_head_dim=64, window=128, ratio=ratio, indexer=indexer)


LLAMA_3_8B = model((32, gqa(8, 128)))
QWEN3_8B = model((36, gqa(8, 128)), max_context=40960)
GEMMA_3_27B = model((52, gqa(16, 128, window=1024)), (10, gqa(16, 128)), max_context=131072)
GEMMA_3_1B = model((22, gqa(1, 256, query_heads=4, window=512)), (4, gqa(1, 256, query_heads=4)), max_context=32768)
GEMMA_4_31B = model(
    (50, gqa(16, 256, query_heads=32, window=1024)), (10, gqa(4, 512, query_heads=32)), max_context=262144
)
GPT_OSS_20B = model((12, gqa(8, 64, query_heads=64, window=128)), (12, gqa(8, 64, query_heads=64)), max_context=131072)
GPT_OSS_120B = model((18, gqa(8, 64, query_heads=64, window=128)), (18, gqa(8, 64, query_heads=64)), max_context=131072)
LLAMA_4_SCOUT = model((36, gqa(8, 128, 40, window=8192, chunked=True)), (12, gqa(8, 128, 40)), max_context=10485760)
DEEPSEEK_V3 = model((61, latent()), max_context=163840)
DEEPSEEK_V3_2 = model((61, latent(index=True)), max_context=163840)
GLM_5_2 = model(
    (21, latent(index=True, heads=64)), (57, latent(index=True, owns_index=False, heads=64)), max_context=202752
)
QWEN3_5_27B = model((48, delta_net(16, 48)), (16, gqa(4, 256, query_heads=24)), max_context=262144, state_dtype="fp32")
QWEN3_5_27B_MTP = replace(QWEN3_5_27B, mtp=(LayerGroup(layers=(64,), mixers=(gqa(4, 256, query_heads=24),)),))
QWEN3_5_9B = model((24, delta_net(16, 32)), (8, gqa(4, 256, query_heads=16)), max_context=262144, state_dtype="fp32")
QWEN3_NEXT = model((36, delta_net(16, 32)), (12, gqa(2, 256, query_heads=16)), max_context=262144)
NEMOTRON_3_NANO = model((23, mamba2(64, 64, 128, groups=8)), (6, gqa(2, 128)), max_context=262144, family="nemotron_h")
DEEPSEEK_V4_FLASH = model((2, compressed(0)), (21, compressed(4)), (20, compressed(128)), max_context=1048576)
