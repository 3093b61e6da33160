"""`-c` is the whole cache, exactly; `-np` slots share it."""

import pytest
from engines.models import GPT_OSS_20B, LLAMA_3_8B
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.engines import capacity, memory_before_cache, settled
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB, MIB

CARD = load_gpu("rtx4070")


def asked(spec: ModelSpec, **flags: object) -> tuple[Deployment, MemoryBudget]:
    deployment = settled(spec, CARD, checked(Deployment, {"engine": "llamacpp", **flags}))
    return deployment, memory_before_cache(spec, CARD, deployment, 4 * GIB)


@pytest.mark.parametrize(
    "flags, mib",
    [
        # llama-server: "llama_kv_cache: size = 1024.00 MiB (8192 cells, 32 layers, 1/1 seqs)"
        ({"ctx_size": 8192, "parallel": 1}, 1024),
        ({"ctx_size": 8192}, 1024),  # four slots over one stream
        ({"ctx_size": 8192, "parallel": 4}, 1024),  # 2,048 cells each
        ({"ctx_size": 8192, "kv_cache_dtype": "q8_0"}, 544),
        ({"ctx_size": 1000, "parallel": 3}, 3 * 64),  # 334 cells each are 512
    ],
)
def test_the_cache_is_what_is_asked_for(flags: dict[str, object], mib: float) -> None:
    _, found = asked(LLAMA_3_8B, **flags)
    assert found.pool is not None
    assert (found.pool.low, found.pool.high) == (found.pool.value, found.pool.value)
    assert found.pool.value == mib * MIB


def test_windows_hold_a_window_for_every_slot() -> None:
    """gpt-oss-20b, one slot of 8,192: 192 MiB of 8,192 cells and 18 MiB of 768 (llama-server's start-up log)."""
    _, found = asked(GPT_OSS_20B, ctx_size=8192, parallel=1)
    assert found.pool is not None
    assert found.pool.value == (192 + 18) * MIB


def test_more_than_the_card_holds_does_not_start() -> None:
    _, found = asked(LLAMA_3_8B, ctx_size=131072, parallel=1)
    assert found.starts is False
    assert asked(LLAMA_3_8B, ctx_size=32768)[1].starts


@given(cells=st.integers(256, 10**6), slots=st.integers(1, 64))
def test_a_slot_holds_one_sequence(cells: int, slots: int) -> None:
    deployment, found = asked(LLAMA_3_8B, ctx_size=cells, parallel=slots)
    assert found.pool is not None
    held = capacity(LLAMA_3_8B, deployment, found.pool.value)
    longest = deployment.max_model_len or 0
    assert held.max_batch(longest) == slots == deployment.max_num_seqs
    assert held.kv_cache_size_tokens is not None
    assert cells <= held.kv_cache_size_tokens < cells + 512 * slots
    assert held.estimated_max_model_len(longest) == longest


def test_slots_of_one_stream_share_its_cells() -> None:
    deployment, _ = asked(LLAMA_3_8B, ctx_size=8192)
    held = capacity(LLAMA_3_8B, deployment, GIB)
    assert [held.max_batch(context) for context in (8192, 4096, 1024, 10)] == [1, 2, 4, 4]
