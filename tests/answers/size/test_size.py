"""`kvcalc size`: figures of one GPU, and reasons in words."""

from typing import Any

import pytest

from kvcalc.answers.question import Question
from kvcalc.answers.size.answer import size
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.results.size import SizeResult
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.load import Workload
from kvcalc.units import GIB


def answer(model: str, gpu: str = "h200-sxm", **flags: Any) -> SizeResult:
    asked = checked(Deployment, flags)
    return size(Question(model=load_model(model), gpu=load_gpu(gpu), deployment=asked, workload=Workload())).result


@pytest.mark.parametrize(
    "model, flags, want",
    [
        ("llama-3-70b", {"pipeline_parallel_size": 4}, 20 * 2 * 8 * 128 * 2),  # a stage has 20 of the 80 layers
        ("deepseek-v3", {"tensor_parallel_size": 8, "kv_cache_dtype": "bf16"}, 70272),  # whole on every rank
        ("deepseek-v3", {"tensor_parallel_size": 8, "decode_context_parallel_size": 8}, 70272 / 8),
        ("deepseek-v3.2", {"tensor_parallel_size": 8, "kv_cache_dtype": "fp8"}, 61 * (656 + 132)),
        ("deepseek-v3.2", {"tensor_parallel_size": 8, "kv_cache_dtype": "bf16"}, 61 * (1152 + 132)),
    ],
)
def test_growth_is_of_one_gpu_in_the_engine_s_own_layout(model: str, flags: dict[str, Any], want: float) -> None:
    assert answer(model, **flags).kv_cache_bytes_per_token == want


def test_state_is_of_one_gpu() -> None:
    whole, stage = (answer("qwen3.5-27b", pipeline_parallel_size=pp).fixed_bytes_per_sequence for pp in (1, 2))
    assert whole == 153_944_064
    assert stage == whole // 2


def test_needed_and_longest_of_a_pool() -> None:
    # MiniMax-M2 on four GPUs, vLLM 0.11: "11.62 GiB KV cache is needed", 9.38 available, "estimated … 158560"
    found = answer(
        "minimax-m2.5",
        tensor_parallel_size=4,
        max_model_len=196608,
        kv_memory_bytes=int(9.38 * GIB),
        engine_version="0.11",
    )
    assert found.kv_cache_needed_bytes_per_gpu == 11.625 * GIB
    assert found.estimated_max_model_len == pytest.approx(158560, abs=16 + 0.005 * GIB / 63488)
    assert not found.fits


def test_a_table_that_the_reserve_cannot_hold_is_named() -> None:
    # (2,048 + 1) requests × 10,485,760 tokens × 4 B
    found = answer("llama-4-scout", "h100-sxm", engine="sglang", tensor_parallel_size=8)
    assert found.reason is not None
    assert "80.04 GiB" in found.reason
    assert not found.fits


def test_a_pool_that_the_card_cannot_hold_beside_the_weights() -> None:
    found = answer("llama-3.3-70b", "h100-sxm", kv_memory_bytes=5 * GIB)
    assert found.reason is not None
    assert "weights" in found.reason
    assert not [one for one in found.advice if one.change.startswith("--max-model-len")]  # no length helps
    assert found.estimated_max_model_len == pytest.approx(5 * GIB / 327680, abs=32)  # of the pool, all the same


def test_printed_tokens_are_not_what_is_lost() -> None:
    # 0.20 prints blocks // groups and 0.21 concurrency × length: the same pool holds the same sequences
    said = [
        answer("gemma-4-31b-nvfp4", "b200-sxm", engine_version=version, kv_memory_bytes=50 * GIB).ideal
        for version in ("0.20", "0.21")
    ]
    assert said[0] is not None
    assert said[1] is not None
    assert said[0].difference == said[1].difference
