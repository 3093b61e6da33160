"""Weights as engines load them, against start-up logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.experts import ExpertKernels, kept_bytes, padded_shape
from kvcalc.counting.weights import matrix_bytes
from kvcalc.engines import loaded_weight_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import MXFP4
from kvcalc.units import GIB

LEFT_OVER = 0.08  # what "Model loading took" holds beside tensors


@pytest.mark.parametrize(
    "model, gpu, version, tp, logged",
    [
        ("gpt-oss-20b", "h100-sxm", "0.19.0", 1, 13.64),  # Triton: values padded to 64 bytes, scales twice
        ("gpt-oss-20b", "h100-sxm", "0.19.0", 2, 7.01),
        ("gpt-oss-20b", "h100-sxm", "0.19.0", 4, 3.63),
        ("gpt-oss-20b", "h100-sxm", "0.11", 1, 13.47),  # values not padded
        ("gpt-oss-120b", "h100-sxm", "0.11", 1, 64.38),
        ("gpt-oss-20b", "a100-80g-sxm", "0.19.0", 1, 13.72),  # Marlin
        ("gpt-oss-120b", "h100-sxm", "0.10.1", 1, 65.97),  # Marlin on Hopper too
    ],
)
def test_experts_in_mxfp4_by_gpu_and_version(model: str, gpu: str, version: str, tp: int, logged: float) -> None:
    deployment = Deployment(engine_version=version, tensor_parallel_size=tp)
    loaded = loaded_weight_bytes(load_model(model), deployment, load_gpu(gpu)) / GIB
    assert logged - LEFT_OVER <= loaded <= logged + 0.01


def test_scales_are_kept_once_since_0_25() -> None:
    model, gpu = load_model("gpt-oss-120b"), load_gpu("h100-sxm")
    before, now = (loaded_weight_bytes(model, Deployment(engine_version=v), gpu) for v in ("0.24", "0.25"))
    assert before - now == 36 * 128 * (5760 + 2880) * 2880 // 32  # one byte for 32 elements


def test_other_weights_do_not_depend_on_the_gpu() -> None:
    model = load_model("qwen3-30b-a3b-fp8")
    loaded = {loaded_weight_bytes(model, Deployment(), load_gpu(gpu)) for gpu in ("a100-80g-sxm", "h100-sxm", "mi300x")}
    assert len(loaded) == 1


@given(
    outputs=st.integers(1, 64).map(lambda n: 32 * n),
    inputs=st.integers(1, 64).map(lambda n: 32 * n),
    kernels=st.builds(
        ExpertKernels,
        format=st.just("mxfp4"),
        width=st.sampled_from((1, 64, 128, 256)),
        hidden=st.sampled_from((1, 256)),
        value_inputs=st.sampled_from((1, 128)),
        value_outputs=st.sampled_from((1, 64)),
        scale_outputs=st.sampled_from((0, 256)),
        keeps_scales=st.booleans(),
    ),
    split=st.sampled_from(("columns", "rows")),
)
def test_kernels_never_keep_less(outputs: int, inputs: int, kernels: ExpertKernels, split: str) -> None:
    share = padded_shape((outputs, inputs), split, 1, kernels)
    assert share[0] >= outputs
    assert share[1] >= inputs
    assert kept_bytes(share, MXFP4, kernels) >= matrix_bytes((outputs, inputs), MXFP4)
