"""SGLang's pools and what it keeps back, worked out by hand where stages, pages and classes of cards differ."""

import pytest
from engines.memory.test_by_hand_budget import LLAMA_8B, MOE, fraction
from engines.models import GEMMA_3_27B, QWEN3_5_27B, compressed, delta_net, gqa, latent, model
from engines.test_capacity_by_hand import POOL, held

from kvcalc.catalog.gpus import load_gpu
from kvcalc.engines import budget_of_start
from kvcalc.engines.memory.budget import ByteRange
from kvcalc.engines.memory.start import Start
from kvcalc.engines.sglang.batches import batch_defaults
from kvcalc.engines.sglang.capacity import cells
from kvcalc.engines.sglang.memory import prefill_sizes
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Indexer, ModelSpec
from kvcalc.specs.versions import parse_version
from kvcalc.units import GIB

ROW = 4096  # bytes of one token and layer: eight heads of 128 in 16 bits
STATE = 48 * 128 * 128 * 4 + 3 * 10_240 * 2  # of one layer of Qwen3.5-27B


def sglang(**flags: object) -> Deployment:
    return checked(Deployment, {"engine": "sglang", **flags})


@pytest.mark.parametrize(
    "spec, cell",
    [
        (model((3, gqa(8, 128))), 2 * ROW),
        # Of three layers the first stage holds two: one whole, and eight tenths of a windowed one.
        (model((1, gqa(8, 128)), (1, gqa(8, 128, window=128)), (1, gqa(8, 128))), 1.8 * ROW),
    ],
)
def test_the_stage_that_grows_the_most_decides(spec: ModelSpec, cell: float) -> None:
    assert held("sglang", spec, pipeline_parallel_size=2).kv_cache_size_tokens == int(POOL / cell)


def test_the_stage_with_the_most_states_decides() -> None:
    found = held("sglang", model((3, delta_net(16, 48)), (1, gqa(8, 128))), pipeline_parallel_size=2)
    assert [pool.block_bytes for pool in found.pools if pool.name == "state"] == [2 * STATE]


def test_pages_of_sixteen_tokens() -> None:
    """Gemma-3-27B: ten layers of 8,192 bytes a token, and 52 that have eight tenths of the slots."""
    found = held("sglang", GEMMA_3_27B, block_size=16)
    tokens = int(POOL / (8192 * (10 + 0.8 * 52))) // 16 * 16
    full, sliding = found.pools
    assert found.kv_cache_size_tokens == tokens
    assert (full.num_blocks, sliding.num_blocks) == (tokens // 16, int(0.8 * tokens) // 16)
    assert (full.block_bytes, sliding.block_bytes) == (16 * 10 * 8192, 16 * 52 * 8192)
    assert [pool.groups[0].page_bytes for pool in found.pools] == [16 * 10 * 8192, 16 * 52 * 8192]
    assert found.rounding.startswith("pages of 16 tokens")
    assert held("sglang", GEMMA_3_27B).rounding.startswith("pages of 1 token,")


def test_an_index_of_plain_attention_is_a_key_of_16_bits() -> None:
    indexed = model((1, gqa(8, 128, indexer=Indexer(heads=4, head_dim=128, top_k=2048))))
    assert cells(indexed, sglang(), frozenset({0})) == (ROW + 2 * 128, 0)


@pytest.mark.parametrize("flags, slots", [({"enable_prefix_caching": False, "max_num_seqs": 10}, 10),
                                          ({"enable_prefix_caching": False, "max_num_seqs": 10**6}, None),
                                          ({"max_num_seqs": 10}, None)])  # fmt: skip
def test_requests_limit_states_where_no_prefix_is_kept(flags: dict[str, object], slots: int | None) -> None:
    """_handle_max_mamba_cache: min with max_running_requests only without a radix cache."""
    state = next(pool for pool in held("sglang", QWEN3_5_27B, **flags).pools if pool.name == "state")
    assert state.num_blocks == (int(POOL * 9 / 19 - 48 * STATE) // (48 * STATE) if slots is None else slots)


@pytest.mark.parametrize("drafted", [0, 3])
def test_windows_by_requests_leave_the_rest_to_the_tokens(drafted: int) -> None:
    """Windows of 128 and, once, of 256: 64 requests keep the widest, an interval of 128 for each token of a step and
    two pages; two chunks are in flight, and four ends of prefixes are kept for each.
    """
    spec = model((3, compressed(4)), (2, compressed(128)), (1, replace(compressed(0), window=256)), max_context=65536)
    flags = {"engine_version": "0.5.21", "max_num_seqs": 64, "max_num_batched_tokens": 4096}
    found = held("sglang", spec, num_speculative_tokens=drafted, **flags)
    slots = 64 * (256 + 128 * (drafted + 1) + 2 * 256) + 2 * 4096 + 256 + 4 * 64 * (256 + 256)
    more = 7 / 6 if drafted else 1
    full = more * (3 * (65 * 576 / 64 + 132) / 4 + 2 * (3 * 576 / 2) / 128)
    rows = 16 if drafted else 8
    window = more * (6 * 260 * 576 / 256 + 3 * rows * 2 * 2 * (512 + 128) * 4 / 256)
    ring = 256 if drafted else 128
    states = 2 * (-(-(65 * ring + ring + 1) // 128) * 128) * 2 * 512 * 4
    assert found.pools[1].num_blocks == -(-slots // 256)
    tokens = (POOL - states - -(-slots // 256) * 256 * window) / full
    assert found.kv_cache_size_tokens == int(tokens) // 256 * 256
    group = found.pools[1].groups[0]
    assert (group.window, group.most_tokens, group.page_bytes) == (256, 256 + 256, int(256 * window))


@pytest.mark.parametrize(
    "gib, version, chunk, captured, wide",
    [
        # SGLang, server_args.py, by the size of the card: below 20, 35, 60 and 160 GiB, and above; with four GPUs.
        (19.9, "0.5.9", 2048, 8, 8),
        (20, "0.5.9", 2048, 24, 80),
        (34.9, "0.5.20", 4096, 48, 160),
        (35, "0.5.9", 4096, 32, 160),
        (59.9, "0.5.9", 4096, 32, 160),
        (60, "0.5.9", 8192, 256, 512),
        (159.9, "0.5.9", 8192, 256, 512),
        (160, "0.5.9", 16384, 512, 512),
    ],
)
def test_chunks_and_captured_batches_by_card(gib: float, version: str, chunk: int, captured: int, wide: int) -> None:
    gpu = replace(load_gpu("h100-sxm"), usable_memory_bytes=int(gib * GIB))
    found = [
        batch_defaults(gpu, sglang(tensor_parallel_size=tp, **flags), parse_version(version))
        for tp, flags in ((1, {}), (3, {}), (4, {}), (8, {}), (8, {"max_num_batched_tokens": 512}))
    ]
    assert found == [(chunk, captured), (chunk, captured), (chunk, wide), (chunk, wide), (512, wide)]


LADDER = (
    *(4, 8, 12, 16, 20, 24, 28, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256),
    *(288, 320, 352, 384, 416, 448, 480, 512, 576, 640, 704, 768, 832, 896, 960, 1024),
    *(1280, 1536, 1792, 2048, 2304, 2560, 2816, 3072, 3328, 3584, 3840, 4096),
    *(4608, 5120, 5632, 6144, 6656, 7168, 7680, 8192),
)


@pytest.mark.parametrize("largest", [8192, 8191, 4096, 4095, 1024, 512, 256, 100, 32, 4, 3])
def test_prompts_that_are_captured(largest: int) -> None:
    """_generate_prefill_cuda_graph_batch_sizes: fine where prompts are short."""
    assert prefill_sizes(largest) == [size for size in LADDER if size <= largest]


@pytest.mark.parametrize(
    "version, gib, flags, kept_mib",
    [
        ("0.4.9", 34.9, {}, 2.9 * 1024),
        ("0.4.9", 35, {}, 10 * 1024),
        ("0.4.9", 90, {}, 12.5 * 1024),
        ("0.4.9", 95.06, {}, 12.5 * 1024),  # 0.8685 and a little, rounded up
        ("0.5.9", 60, {"max_num_batched_tokens": 1024}, 512 + 1.5 * 2048 + 2 * 256 + 1024 / 8),  # the floor is above it
        ("0.5.9", 80, {"pipeline_parallel_size": 8}, 512 + 1.5 * 8192 + 2 * 256 + 1024),
        ("0.5.9", 80, {"tensor_parallel_size": 2, "data_parallel_size": 4}, 512 + 1.5 * 8192 + 2 * 256 + 1024 / 4),
        (
            "0.5.9", 80, {"tensor_parallel_size": 2, "data_parallel_size": 4, "enable_dp_attention": True},
            512 + 1.5 * 8192 + 2 * 256 + 1024,
        ),
    ],
)  # fmt: skip
def test_what_is_kept_back_at_the_edges(version: str, gib: float, flags: dict[str, object], kept_mib: float) -> None:
    assert fraction(version, gib, **flags) == round(1 - kept_mib / (gib * 1024), 3)


@pytest.mark.parametrize("engine", ["sglang", "trtllm", "llamacpp", "vllm"])
def test_adapters_are_taken_from_the_pool(engine: str) -> None:
    deployment = checked(Deployment, {"engine": engine})
    start = Start(LLAMA_8B, load_gpu("h100-sxm"), deployment, 16 * GIB, max_model_len=8192)
    plain, adapted = budget_of_start(start), budget_of_start(start._replace(lora=ByteRange.exactly(2 * GIB)))
    assert plain.pool is not None
    assert adapted.pool is not None
    share = {"trtllm": 0.9}.get(engine, 1.0)  # of what is free
    assert plain.pool.value - adapted.pool.value == pytest.approx(share * 2 * GIB, abs=2)


def test_raw_latents_have_a_row_of_their_type() -> None:
    spec = model((1, latent(index=True)))
    for dtype, size in (("bf16", 2), ("fp8", 1)):
        deployment = replace(sglang(kv_cache_dtype=dtype), raw_latents=True)
        assert cells(spec, deployment, frozenset({0})) == (576 * size + 132, 0)


def test_experts_do_not_change_what_sglang_keeps_back() -> None:
    assert fraction("0.5.9", shape=MOE) == fraction("0.5.9", shape=LLAMA_8B)
