"""What SGLang settles by model and GPU, its state slots, and its pools for compressed attention."""

import pytest
from engines.models import DEEPSEEK_V4_FLASH, compressed, gqa, latent, model

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.engines import capacity, loaded_weight_bytes, rules, settled
from kvcalc.errors import KvcalcError
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB

SPARSE = model((78, latent(index=True)))


def sglang(**flags: object) -> Deployment:
    return checked(Deployment, {"engine": "sglang", **flags})


@pytest.mark.parametrize(
    "gpu, dtype, cell",
    [
        # GLM-5.2 on eight RTX PRO 6000: 464,768 tokens in 23.91 GiB, the index on every layer
        ("rtx-pro-6000-ws", "fp8", 78 * (576 + 132)),
        ("b200-sxm", "auto", 78 * (576 + 132)),  # fp8 by itself
        ("b200-sxm", "bf16", 78 * (576 * 2 + 132)),
        ("h200-sxm", "fp8", 78 * (656 + 132)),  # FlashMLA packs scales
        ("h200-sxm", "auto", 78 * (576 * 2 + 132)),  # bf16 by itself
        ("mi355x", "fp8", 78 * (576 + 132)),
    ],
)
def test_bytes_of_a_sparse_token_by_gpu(gpu: str, dtype: str, cell: int) -> None:
    """calculate_mla_kv_cache_dim, sglang/srt/mem_cache/kv_cache_configurator.py."""
    deployment = settled(SPARSE, load_gpu(gpu), sglang(kv_cache_dtype=dtype))
    held = capacity(SPARSE, deployment, int(23.91 * GIB))
    assert held.bytes_per_token(0) == cell
    if gpu == "rtx-pro-6000-ws":
        assert held.kv_cache_size_tokens == pytest.approx(464_768, rel=0.001)


def test_state_slots_as_asked() -> None:
    """Qwen3.6-27B on two RTX 3090: eight slots of state beside 4.58 + 4.58 GB of cache, 600,075 tokens."""
    spec = load_model("qwen3-next-80b-a3b")
    asked = sglang(max_mamba_cache_size=8, max_num_seqs=4, kv_cache_dtype="fp8")
    pools = {pool.name: pool for pool in capacity(spec, asked, 10 * GIB).pools}
    state = pools["state"]
    assert state.num_blocks == 8
    tokens = pools["full"].num_blocks
    assert tokens * pools["full"].block_bytes == pytest.approx(10 * GIB - 9 * state.block_bytes, abs=65536)


def test_replicas_of_attention_are_inside_the_gpus() -> None:
    """--tp 8 --dp 8 --enable-dp-attention: one GPU of attention each, experts over all eight."""
    spec, gpu = load_model("deepseek-v3"), load_gpu("h200-sxm")
    asked = sglang(tensor_parallel_size=8, data_parallel_size=8, enable_dp_attention=True, max_num_seqs=256)
    found = settled(spec, gpu, asked)
    assert (found.tensor_parallel_size, found.data_parallel_size, found.gpus) == (1, 8, 8)
    assert found.max_num_seqs == 32
    assert settled(spec, gpu, found) == found
    typed = rules("sglang").typed(found)
    assert (typed.tensor_parallel_size, typed.max_num_seqs) == (8, 256)
    plain = sglang(tensor_parallel_size=8)
    whole_attention = loaded_weight_bytes(spec, found) - loaded_weight_bytes(spec, plain)
    assert whole_attention > 8 * GIB  # attention and dense layers are whole on each GPU
    with pytest.raises(KvcalcError, match="do not divide"):
        settled(spec, gpu, sglang(tensor_parallel_size=8, data_parallel_size=3, enable_dp_attention=True))


def test_a_flag_of_another_engine_is_refused() -> None:
    asked = checked(Deployment, {"engine": "vllm", "max_mamba_cache_size": 8})
    with pytest.raises(KvcalcError, match="SGLang"):
        settled(SPARSE, None, asked)


def test_compressed_attention() -> None:
    """DSV4PoolConfigurator: vectors of 584 bytes in pages of 576, index keys of 132, windows a tenth of the tokens,
    a ring of 128 rows for each of 2,048 requests and one.
    """
    page = -(-64 * 584 // 576) * 576 / 64
    full = 21 * (page + 132) / 4 + 20 * (-(-2 * 584 // 576) * 576 / 2) / 128
    window = 43 * -(-256 * 584 // 576) * 576 / 256 + 21 * 8 / 256 * 2 * 2 * (512 + 128) * 4
    states = 20 * (2050 * 128 + 128) * 2 * 512 * 4
    held = capacity(DEEPSEEK_V4_FLASH, sglang(engine_version="0.5.20", max_model_len=2**21), 30 * GIB)
    want = (30 * GIB - states) / (full + window / 10) // 256 * 256
    assert held.kv_cache_size_tokens == pytest.approx(want, abs=512)
    assert [pool.name for pool in held.pools] == ["full", "sliding"]


def test_windows_by_requests_where_they_are_given() -> None:
    """_resolve_swa_cap_tokens: 0.5.21 and later."""
    asked = {"max_model_len": 2**20, "max_num_seqs": 64, "max_num_batched_tokens": 8192}
    before, after = (
        capacity(DEEPSEEK_V4_FLASH, sglang(engine_version=version, **asked), 60 * GIB)
        for version in ("0.5.20", "0.5.21")
    )
    slots = (128 + 128 + 2 * 256) * 64 + 2 * 8192 + 256 + 4 * 64 * (128 + 256)
    assert after.pools[1].num_blocks == -(-slots // 256)
    assert (after.kv_cache_size_tokens or 0) > (before.kv_cache_size_tokens or 0)


SMALL = model((3, compressed(4)), (2, compressed(128)), (1, compressed(0)), max_context=65536)


@pytest.mark.parametrize("drafted", [0, 1])
def test_compressed_attention_of_six_layers_by_hand(drafted: int) -> None:
    """A vector is 448 + 2 · 64 + 8 = 584 bytes: 64 in a page fill 65 times 576, two fill 3 times, 256 fill 260 times.
    Drafts make rings twice as long and the cells (6 + 1) / 6 as large.
    """
    full = 3 * (65 * 576 / 64 + 132) / 4 + 2 * (3 * 576 / 2) / 128
    states = 3 * (16 if drafted else 8) * 2 * 2 * (512 + 128) * 4 / 256
    window = 6 * 260 * 576 / 256 + states
    more = 7 / 6 if drafted else 1
    ring = 256 if drafted else 128
    # 4,096 requests may run, for the pool's tokens are more than 8 times 65,536
    rows = -(-(4097 * ring + ring + 1) // 128) * 128
    held = capacity(SMALL, sglang(engine_version="0.5.20", num_speculative_tokens=drafted), 10 * GIB)
    tokens = int((10 * GIB - 2 * rows * 2 * 512 * 4) / (more * (full + window / 10))) // 256 * 256
    assert held.kv_cache_size_tokens == tokens
    assert [pool.num_blocks for pool in held.pools] == [tokens // 256, int(tokens / 10) // 256]
    assert [pool.block_bytes for pool in held.pools] == [int(more * full * 256), int(more * window * 256)]


@pytest.mark.parametrize(
    "size, length, requests",
    [
        (10 * GIB, 3 * 2**20, 2048),  # 1,750 whole lengths' worth
        (10 * GIB, 2**21, int(10 * GIB / 998.25) * 512 // 2**21),
        (10 * GIB, 65536, 4096),
        (GIB // 400, 65536, int(GIB // 400 / 998.25) // 2),
    ],
)
def test_requests_of_compressed_attention_within_their_limits(size: int, length: int, requests: int) -> None:
    """512 for each whole-length request, within 2,048 and 4,096, and at most half the tokens. A token takes 551.25
    bytes, and a tenth of the 4,470 of a windowed one.
    """
    held = capacity(SMALL, sglang(engine_version="0.5.20", max_model_len=length), size)
    assert f"states of {requests:,} requests" in (held.rounding or "")


def test_a_request_holds_its_widest_window_and_a_page() -> None:
    """Windows of 128 and of 1,024 tokens in one pool: a request keeps the wider one, and the page that comes next."""
    both = model((1, gqa(8, 128)), (1, gqa(8, 128, window=128)), (1, gqa(8, 128, window=1024)))
    pools = {pool.name: pool for pool in capacity(both, sglang(), GIB).pools}
    group = pools["sliding"].groups[0]
    assert (group.window, group.most_tokens) == (1024, 1024 + (group.block_size or 0))
    assert group.token_bytes == 2 * 2 * 8 * 128 * 2
