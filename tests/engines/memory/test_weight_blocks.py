"""Block-scaled weights divide in whole blocks."""

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.engines import capacity, loaded_weight_bytes
from kvcalc.engines.memory.weight_blocks import Divides, check_weight_blocks
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB


@pytest.mark.parametrize(
    "model, flags",
    [
        # "The output_size of gate's and up's weight = 192 is not divisible by weight quantization block_n = 128"
        ("minimax-m2.5", {"tensor_parallel_size": 8, "engine_version": "0.19"}),
        ("qwen3-30b-a3b-fp8", {"tensor_parallel_size": 4, "engine_version": "0.10.2"}),
        ("minimax-m2.5", {"tensor_parallel_size": 8, "engine": "sglang"}),
        # "Weight output_partition_size = 576 is not divisible by weight quantization block_n = 128"
        ("deepseek-v3", {"tensor_parallel_size": 32, "enable_expert_parallel": True}),
    ],
)
def test_what_engines_refuse(model: str, flags: dict[str, object]) -> None:
    deployment = checked(Deployment, flags)
    for ask in (lambda m, d: capacity(m, d, GIB), loaded_weight_bytes):
        with pytest.raises(KvcalcError, match="128") as caught:
            ask(load_model(model), deployment)
        assert "--tensor-parallel-size" in str(caught.value.hint)


@pytest.mark.parametrize(
    "model, flags",
    [
        ("minimax-m2.5", {"tensor_parallel_size": 4, "engine_version": "0.19"}),  # logged, on four H100s
        ("minimax-m2.5", {"tensor_parallel_size": 8, "engine_version": "0.19", "enable_expert_parallel": True}),
        ("minimax-m2.5", {"tensor_parallel_size": 8}),  # 0.29 and later refine the scales
        ("deepseek-v3", {"tensor_parallel_size": 16}),
        ("glm-5.2", {"tensor_parallel_size": 8}),
        ("qwen3-32b-fp8", {"tensor_parallel_size": 8, "engine_version": "0.10.2"}),
    ],
)
def test_what_they_take(model: str, flags: dict[str, object]) -> None:
    capacity(load_model(model), checked(Deployment, flags), GIB)


@pytest.mark.parametrize("engine", ["sglang", "trtllm", "llamacpp"])
def test_decode_context_parallelism_of_other_engines_is_not_guessed(engine: str) -> None:
    flags = {"engine": engine, "tensor_parallel_size": 8, "decode_context_parallel_size": 2}
    with pytest.raises(KvcalcError, match="not known"):
        capacity(load_model("deepseek-v3"), checked(Deployment, flags), GIB)


def test_experts_are_not_refined_below_blocks_of_32() -> None:
    """MiniMax's experts of 1,536 over 32 GPUs are 48 wide: 16 would divide that, and no engine has such blocks."""
    whole = load_model("minimax-m2.5")
    groups = (replace(g, tensors=tuple(t for t in g.tensors if t.category == "experts")) for g in whole.groups)
    experts = replace(whole, groups=tuple(groups))
    refines = Divides("vLLM", refines_experts=True)
    check_weight_blocks(experts, Deployment(tensor_parallel_size=8), refines)  # 192 in blocks of 64
    check_weight_blocks(experts, Deployment(tensor_parallel_size=16), refines)  # 96 in blocks of 32
    with pytest.raises(KvcalcError, match="an expert over 32 GPUs: 48 on each is no multiple of the 32"):
        check_weight_blocks(experts, Deployment(tensor_parallel_size=32), refines)
