"""GPUs that share the host's memory, against what their owners report."""

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.engines import budget_of_start
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.memory.shared import growth, system_use
from kvcalc.engines.memory.start import Start
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
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
