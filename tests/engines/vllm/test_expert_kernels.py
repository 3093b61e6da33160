"""Which kernels of experts vLLM chooses by GPU and version: one for each format of weights."""

import pytest

from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.operators.experts import USUAL
from kvcalc.engines.vllm.weights import expert_kernels
from kvcalc.specs.deployment import Deployment


@pytest.mark.parametrize(
    "gpu, version, width, bias_bits",
    [
        ("a100-80g-sxm", "0.19", 128, None),  # Marlin
        ("h100-sxm", "0.10.1", 128, None),
        ("h100-sxm", "0.19", 64, 32),  # Triton
        ("b200-sxm", "0.19", 256, 32),  # FlashInfer's TRTLLM kernels
        ("b200-sxm", "0.28", 128, 32),
        ("mi300x", "0.19", 256, None),
        ("rtx-pro-6000-ws", "0.28", 128, None),  # Blackwell, but not of data centres
    ],
)
def test_experts_in_mxfp4(gpu: str, version: str, width: int, bias_bits: int | None) -> None:
    """fused_moe/oracle/mxfp4.py, vLLM 0.11.0 to 0.33.0."""
    found = expert_kernels(Deployment(engine_version=version), load_gpu(gpu))
    assert [(one.format, one.width, one.bias_bits) for one in found] == [("mxfp4", width, bias_bits)]
    assert expert_kernels(Deployment(engine_version=version), None) == USUAL
