"""Unequal cards of one host as one device."""

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import ask
from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.timing.passes import Pass


def step_s(gpu: str) -> float:
    found = Deployed(ask("qwen2.5-7b", {"gpu": gpu, "engine": "llamacpp", "quantization": "q4_k_m"}))
    return float(Pass(found.replica, Step(decode=1, context=1000)).time_s)


def test_memories_add_up_and_rates_are_means_by_layers() -> None:
    both, large, small = (load_gpu(name) for name in ("rtx3090+rtx3060", "rtx3090", "rtx3060"))
    assert both.usable_memory_bytes == large.usable_memory_bytes + small.usable_memory_bytes
    share = large.usable_memory_bytes / both.usable_memory_bytes
    # A byte in every layer passes the first card with the first share, the second with the rest.
    seconds = share / large.memory_bandwidth_bytes_per_s + (1 - share) / small.memory_bandwidth_bytes_per_s
    assert both.memory_bandwidth_bytes_per_s == pytest.approx(1 / seconds)
    assert [one.name for one in both.assumptions] == ["layer split"]


def test_a_split_is_as_fast_as_its_layers_and_a_hop() -> None:
    alone, twice = step_s("rtx3090"), step_s("rtx3090+rtx3090")
    assert 0.15e-3 < twice - alone < 1.1e-3  # a hop, as measured between cards of one host
    assert alone < step_s("rtx3090+rtx3060") < step_s("rtx3060") + 1.1e-3


def test_only_llama_cpp_splits_unequal_cards_and_only_one_vendors() -> None:
    with pytest.raises(KvcalcError, match="unequal cards"):
        ask("llama-3-8b", {"gpu": "rtx3090+rtx3060"})
    with pytest.raises(KvcalcError, match="AMD and NVIDIA"):
        load_gpu("rtx3090+rx7900xt")
    with pytest.raises(KvcalcError, match="unknown GPU"):
        load_gpu("rtx3090+rtx9999")
