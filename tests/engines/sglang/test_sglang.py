"""SGLang's pools against its start-up logs; "GB" there is GiB."""

import pytest
from engines.models import GEMMA_3_27B, QWEN3_5_9B, QWEN3_5_27B, filled, gqa, latent, mamba2, model

from kvcalc.engines import capacity
from kvcalc.engines.sglang.capacity import cells, local_state_bytes, max_running_requests
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec, Recurrent
from kvcalc.units import GIB

GEMMA_4_E4B = model((35, gqa(2, 256, 8, window=512)), (7, gqa(2, 512, 8)), max_context=131072)
MIMO_V2_FLASH = model(
    (39, gqa(8, 192, 64, window=128, v_head_dim=128)), (9, gqa(4, 192, 64, v_head_dim=128)), max_context=262144
)
NEMOTRON_NANO_9B = model((27, mamba2(128, 80, 128, groups=8)), (4, gqa(8, 128, 40)), max_context=131072)


def sglang(**flags: object) -> Deployment:
    return checked(Deployment, {"engine": "sglang", **flags})


def all_layers(spec: ModelSpec) -> frozenset[int]:
    return frozenset(range(spec.layers))


@pytest.mark.parametrize(
    "spec, flags, full, sliding",
    [
        # "KV Cache is allocated. #tokens: 805556, K size: 10.76 GB, V size: 10.76 GB", and 644444 with 21.51 and 21.51:
        # layers that read another's cache have slots too
        (GEMMA_4_E4B, {}, (805556, 2 * 10.76), (644444, 2 * 21.51)),
        # MiMo-V2-Flash on four GPUs: 300,288 windowed slots, K 8.38 and V 5.59 GB
        (MIMO_V2_FLASH, {"tensor_parallel_size": 4}, None, (300288, 8.38 + 5.59)),
        # Qwen3.5-27B: #tokens: 535124, K size: 16.33 GB, V size: 16.33 GB
        (QWEN3_5_27B, {}, (535124, 2 * 16.33), None),
        # Qwen3.5-9B on two GPUs: #tokens: 327310, K size: 2.50 GB, V size: 2.50 GB
        (QWEN3_5_9B, {"tensor_parallel_size": 2}, (327310, 2 * 2.5), None),
        # DeepSeek-V3.2 in fp8: 1,462,784 tokens, 54.52 GB logged without the index, 65.49 GB with it
        (model((61, latent(index=True))), {"kv_cache_dtype": "fp8", "engine_version": "0.5.3"}, (1462784, 54.52), None),
        (model((61, latent(index=True))), {"kv_cache_dtype": "fp8"}, (1462784, 65.49), None),
    ],
)
def test_bytes_of_a_slot(
    spec: ModelSpec, flags: dict[str, object], full: tuple[int, float] | None, sliding: tuple[int, float] | None
) -> None:
    found = cells(spec, sglang(**flags), all_layers(spec))
    for cell, logged in zip(found, (full, sliding), strict=True):
        if logged is not None:
            tokens, gib = logged
            assert cell * tokens / GIB == pytest.approx(gib, rel=0.002)


@pytest.mark.parametrize(
    "spec, flags, slots, gib",
    [
        # "Mamba Cache is allocated. max_mamba_cache_size: 154, conv_state size: 0.43GB, ssm_state size: 21.80GB"
        (QWEN3_5_27B, {}, 154, 0.43 + 21.80),
        (QWEN3_5_9B, {"tensor_parallel_size": 2}, 186, 0.10 + 4.38),
        (NEMOTRON_NANO_9B, {}, 48, 0.09 + 6.46),
    ],
)
def test_bytes_of_the_states(spec: ModelSpec, flags: dict[str, object], slots: int, gib: float) -> None:
    mixers = [(group.count, mixer) for group in spec.groups for mixer in group.mixers]
    each = sum(count * local_state_bytes(m, spec, sglang(**flags)) for count, m in mixers if isinstance(m, Recurrent))
    assert (slots + 1) * each / GIB == pytest.approx(gib, abs=0.01)


def test_windows_get_eight_tenths_of_the_slots() -> None:
    # 644,444 of 805,556; 300,288 of 375,360
    held = capacity(GEMMA_4_E4B, sglang(), 60 * GIB)
    full, sliding = held.pools
    assert held.kv_cache_size_tokens == full.num_blocks
    assert sliding.num_blocks == int(full.num_blocks * 0.8)
    assert 0.999 * 60 * GIB < filled(held) <= 60 * GIB


def test_states_and_how_many_for_each_request() -> None:
    held = capacity(QWEN3_5_27B, sglang(engine_version="0.5.10"), 60 * GIB)
    full, state = held.pools
    assert state.block_bytes * state.num_blocks == pytest.approx(60 * GIB * 0.9 / 1.9, rel=0.01)
    assert held.max_batch(1) == state.num_blocks // 3
    buffered = capacity(QWEN3_5_27B, sglang(engine_version="0.5.15"), 60 * GIB)
    assert buffered.max_batch(1) == buffered.pools[1].num_blocks // 5
    alone = capacity(QWEN3_5_27B, sglang(enable_prefix_caching=False), 60 * GIB)
    assert alone.max_batch(1) == alone.pools[1].num_blocks
    drafted = capacity(QWEN3_5_27B, sglang(num_speculative_tokens=3), 60 * GIB)
    assert drafted.pools[1].num_blocks < state.num_blocks
    assert full.num_blocks > 0


def test_a_page_is_a_token_but_for_sparse_attention() -> None:
    assert capacity(GEMMA_3_27B, sglang(), GIB).block_size == 1
    assert capacity(model((61, latent(index=True))), sglang(), GIB).block_size == 64


def test_requests_that_run_at_once() -> None:
    # resolve_max_num_reqs: 2,048 to 4,096, half the tokens, a third of the states
    held = capacity(GEMMA_3_27B, sglang(), 60 * GIB)
    assert max_running_requests(held, sglang()) == 2048
    assert max_running_requests(held, sglang(max_num_seqs=64)) == 64
    hybrid = capacity(QWEN3_5_27B, sglang(), 30 * GIB)
    assert max_running_requests(hybrid, sglang()) == hybrid.pools[1].num_blocks // 5
