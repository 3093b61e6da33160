"""GPUs that share the host's memory, against what their owners report."""

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.engines import budget_of_start
from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.memory.shared import beside_the_host, growth, system_use
from kvcalc.engines.memory.start import Start
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import MemorySetting
from kvcalc.units import GIB

QWEN38_27B = ProfileShape(hidden=5120, vocab=248320, layers=64, dense_width=17408, hybrid=True)


@pytest.mark.parametrize("ranks, seen", [(1, 0.56), (1, 0.98), (1, 2.18), (2, 5.72), (4, 2.43), (4, 4.03)])
def test_what_else_grows_is_inside_the_range(ranks: int, seen: float) -> None:
    """Strix Halo, Jetson AGX Orin, and GB10 in twos and fours: printed outside PyTorch."""
    grown = growth(ranks)
    assert grown.low <= seen * GIB <= grown.high


def test_the_system_is_inside_what_a_gb10_may_use_and_outside_of_it_on_a_mac() -> None:
    assert system_use(load_gpu("gb10")).value > 0
    assert system_use(load_gpu("m3 max 64gb")).high == 0
    assert system_use(load_gpu("m4 max 128gb")).high == 0
    assert system_use(load_gpu("h100-sxm")).high == 0


def test_a_gb10_serves_at_0_85_and_may_not_start_at_0_92() -> None:
    """Nemotron-3-Super in NVFP4, one GB10 (0.24): verified at 0.85; the default share runs out of memory at start.

    Source: https://github.com/vllm-project/recipes/pull/632
    """
    shape = ProfileShape(hidden=4096, vocab=131072, layers=88, hybrid=True, expert_width=2688, top_k=22, quantized=True)
    held = []
    for share in (0.85, 0.92):
        deployment = Deployment(engine_version="0.24", gpu_memory_utilization=share, max_num_seqs=4)
        found = budget_of_start(Start(shape, load_gpu("gb10"), deployment, 76 * GIB, max_model_len=131072))
        assert found.starts
        held.append(found.card.high <= found.total)
    assert held == [True, False]


def test_weights_beyond_the_default_limit_may_fit_where_it_is_raised() -> None:
    """Strix Halo gives 62 GiB as it comes, and 124 where its owner raises ttm.pages_limit."""
    start = Start(ProfileShape(hidden=4096, vocab=151936, layers=94), load_gpu("strix halo"), Deployment(), 80 * GIB)
    found = budget_of_start(start._replace(deployment=Deployment(engine="llamacpp")))
    assert found.pool is not None
    assert found.pool.value < 0 < found.pool.high


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
@pytest.mark.parametrize("gpu", ["gb10", "m3 max 64gb", "strix halo", "jetson-agx-orin-64"])
def test_every_engine_has_a_range_there(engine: str, gpu: str) -> None:
    deployment = checked(Deployment, {"engine": engine})
    found = budget_of_start(Start(QWEN38_27B, load_gpu(gpu), deployment, 15 * GIB, max_model_len=8192))
    assert found.pool is not None
    assert found.pool.low < found.pool.value < found.pool.high


def test_a_desktop_card_says_what_windows_gives() -> None:
    """RTX 4090: 23.53 GiB on Linux, 23.99 GiB on Windows (llama.cpp's "VRAM" lines)."""
    start = Start(QWEN38_27B, load_gpu("rtx4090"), Deployment(engine="llamacpp"), 5 * GIB, max_model_len=8192)
    said = [one for one in budget_of_start(start).assumptions if one.name == "memory elsewhere"]
    assert [round(one.value / GIB, 2) for one in said if isinstance(one.value, int)] == [23.99]
    assert "desktop" in said[0].why


def test_what_the_system_keeps_is_taken_of_the_pool_by_engines_that_take_what_is_free() -> None:
    # The system's 2 to 9 GiB, 4 as a rule; 90 GiB as another system comes, 120 at most.
    gpu = replace(
        load_gpu("gb10"),
        memory_bytes=100 * GIB,
        usable_memory_bytes=100 * GIB,
        memory_settings=(
            MemorySetting(system="other", usable_memory_bytes=90 * GIB, by_default=True),
            MemorySetting(system="raised", usable_memory_bytes=120 * GIB, by_default=False),
        ),
    )

    def budget(pool: int) -> MemoryBudget:
        return MemoryBudget(
            engine="x", engine_version=None, total=100 * GIB, requested=80 * GIB, weights=0,
            initial_use=ByteRange.exactly(GIB),
            pool=ByteRange(low=(pool - 5) * GIB, value=pool * GIB, high=(pool + 5) * GIB),
        )  # fmt: skip

    free, share = (beside_the_host(budget(40), gpu, share_of_all=whole) for whole in (False, True))
    assert free.pool == ByteRange(low=(35 - 9 - 10) * GIB, value=36 * GIB, high=43 * GIB)
    assert share.pool == ByteRange(low=(35 - 10) * GIB, value=40 * GIB, high=45 * GIB)
    assert free.initial_use == share.initial_use == ByteRange(low=3 * GIB, value=5 * GIB, high=10 * GIB)
    # Only what does not fit is looked at with the most that can be set: 20 GiB more, of which the engine asks for 80 %.
    assert [
        one.pool.high for pool in (4, 5) if (one := beside_the_host(budget(pool), gpu, share_of_all=False)).pool
    ] == [(9 - 2 + 16) * GIB, (10 - 2) * GIB]
    assert system_use(replace(gpu, usable_memory_bytes=95 * GIB)).value == 4 * GIB
    assert system_use(replace(gpu, usable_memory_bytes=95 * GIB - 1)).value == 0


@pytest.mark.parametrize("engine", ["vllm", "sglang", "trtllm", "llamacpp"])
@pytest.mark.parametrize("gpu", ["gb10", "jetson-agx-orin-64", "jetson-thor-t5000", "m3 max 64gb", "strix halo"])
def test_a_small_model_starts_on_every_one(engine: str, gpu: str) -> None:
    """Weights of 8 GiB: what the system keeps is taken once, from what is free or beside a share of the whole."""
    deployment = checked(Deployment, {"engine": engine})
    start = Start(ProfileShape(hidden=4096, vocab=151936, layers=36), load_gpu(gpu), deployment, 8 * GIB)
    assert budget_of_start(start._replace(max_model_len=32768)).starts
