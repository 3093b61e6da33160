"""On a GPU: the kernels as they run, not as the interpreter has them; and a whole step as a graph."""

from typing import Any

import pytest
import torch
from executor.models import model_of
from executor.test_attention import LIMITS
from executor.test_kernels import ATTENTION, GLUE

from kvcalc.executor.cache import Cache, windows_of
from kvcalc.executor.device import Device, torch_dtype
from kvcalc.executor.generate import generate
from kvcalc.executor.loop import Decoder, captured
from kvcalc.executor.shape import shape_of
from kvcalc.executor.verify import verify
from kvcalc.executor.weights import Weights, random_weights

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")]
GPU = Device("cuda")


def weights_of(dtype: str, device: Device, **changes: Any) -> Weights:
    return random_weights(shape_of(model_of(**changes)), torch_dtype(dtype), device.torch)


@pytest.mark.parametrize("case", ATTENTION, ids=str)
def test_attention(case: dict[str, Any]) -> None:
    from executor.interpreted import attention

    assert attention(**case, device="cuda") <= LIMITS[torch_dtype(case["dtype"])]


@pytest.mark.parametrize("case", GLUE, ids=str)
def test_glue(case: dict[str, Any]) -> None:
    from executor.interpreted import glue

    assert glue(**case, device="cuda") <= 2e-2


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("page_size", [16, 64, 256])
@pytest.mark.parametrize("changes", [{}, {"num_key_value_heads": 4}, {"model_type": "mistral", "sliding_window": 40}])
def test_a_step_is_that_of_a_dense_float64_model(dtype: str, page_size: int, changes: dict[str, Any]) -> None:
    with torch.inference_mode():
        assert verify(weights_of(dtype, GPU, **changes), GPU, dtype, page_size).passed


def decoder(device: Device) -> Decoder:
    weights = weights_of("fp32", device)
    cache = Cache(weights.shape, [60] * len(windows_of(weights.shape)), 16, torch.float32, device.torch)
    return Decoder(weights, cache, device, 3, 128)


def test_tokens_are_those_of_the_cpu() -> None:
    prompts = [[1, 5, 9], [3], list(range(10, 50)), [7, 7]]
    with torch.inference_mode():
        assert generate(decoder(GPU), prompts, 12) == generate(decoder(Device("cpu")), prompts, 12)


def test_a_graph_does_what_the_step_does() -> None:
    with torch.inference_mode():
        one = decoder(GPU)
        one.place(one.model.cache.pages.start(40 + index) for index in range(3))
        replay = captured(one.step, GPU)
        for step in (one.step, replay):
            one.feed([1, 2, 3])
            step()
            first = one.tokens.tolist()
            one.feed([1, 2, 3])
            replay()
            assert one.tokens.tolist() == first
