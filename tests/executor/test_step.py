"""A whole step: right, and seen to be wrong where it is made wrong; terms left out; sampling on the device."""

from typing import Any

import pytest
import torch
from executor.models import model_of

from kvcalc.executor import loop, verify
from kvcalc.executor.cache import Cache, windows_of
from kvcalc.executor.device import Device, torch_dtype
from kvcalc.executor.glue import TorchGlue
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Decoder, captured
from kvcalc.executor.model import sampler
from kvcalc.executor.shape import shape_of
from kvcalc.executor.weights import Weights, random_weights

CPU = Device("cpu")
SHAPES: list[dict[str, Any]] = [
    {},
    {"num_key_value_heads": 4},
    {"num_key_value_heads": 1, "tie_word_embeddings": True},
    {"model_type": "mistral", "sliding_window": 40},
    {"model_type": "qwen3", "head_dim": 48},
    {"model_type": "qwen2", "use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
]


def weights_of(dtype: str, **changes: Any) -> Weights:
    weights = random_weights(shape_of(model_of(**changes)), torch_dtype(dtype), CPU.torch)
    weights.pack()
    return weights


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
@pytest.mark.parametrize("page_size", [16, 64])
@pytest.mark.parametrize("changes", SHAPES, ids=str)
def test_a_step_is_that_of_a_dense_float64_model(dtype: str, page_size: int, changes: dict[str, Any]) -> None:
    with torch.inference_mode():
        found = verify.verify(weights_of(dtype, **changes), CPU, dtype, page_size)
    assert found.passed
    assert found.max_rel_error <= {"fp32": 1e-6, "bf16": 5e-3, "fp16": 5e-3}[dtype]
    assert found.logits_rel_error <= {"fp32": 1e-5, "bf16": 5e-2, "fp16": 1e-2}[dtype]
    assert found.checked >= 3 * 3 * 5  # steps, layers, sequences


def wrong_page(queries: Any, keys: Any, values: Any, view: Any, prepared: Any) -> Any:
    return loop_attend(queries, keys.roll(1, dims=0), values.roll(1, dims=0), view, prepared)


def one_token_less(view: Any, dtype: Any) -> Any:
    view.lengths -= 1
    found = loop_prepare(view, dtype)
    view.lengths += 1
    return found


loop_attend, loop_prepare = loop.attend_pages, loop.prepare_pages


@pytest.mark.parametrize("name, broken", [("attend_pages", wrong_page), ("prepare_pages", one_token_less)])
def test_a_wrong_step_does_not_pass(name: str, broken: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, name, broken)
    with torch.inference_mode():
        found = verify.verify(weights_of("fp32"), CPU, "fp32", 16)
    assert not found.passed
    assert found.max_rel_error > 1e-2


@pytest.mark.parametrize("part", ["keys", "values"])
def test_a_key_or_value_that_is_not_written_does_not_pass(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = TorchGlue.rotary

    def lost(self: TorchGlue, *given: Any) -> torch.Tensor:
        keys, values = given[3]
        kept = (keys.clone(), values) if part == "keys" else (keys, values.clone())
        return plain(self, *given[:3], kept, *given[4:])

    monkeypatch.setattr(TorchGlue, "rotary", lost)
    with torch.inference_mode():
        found = verify.verify(weights_of("fp32"), CPU, "fp32", 16)
    assert not found.passed
    assert found.written_rel_error > 0.5


def test_a_missed_copy_on_write_does_not_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcalc.executor.cache.page_copier", lambda _pools: lambda *_: None)
    with torch.inference_mode():
        assert not verify.verify(weights_of("fp32"), CPU, "fp32", 16).passed


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("outputs, inputs", [(64, 32), (1536, 576), (100, 72)])
@pytest.mark.parametrize("bias", [False, True])
def test_reordered_weights_give_the_same_products(dtype: str, outputs: int, inputs: int, bias: bool) -> None:
    kind = torch_dtype(dtype)
    weight, offset = torch.randn(outputs, inputs).to(kind), torch.randn(outputs).to(kind)
    plain, packed = Linear(weight, offset if bias else None), Linear(weight, offset if bias else None)
    packed.pack()
    assert packed.bytes == plain.bytes == (outputs * inputs + bias * outputs) * kind.itemsize
    assert torch.equal(packed.dense(), weight)
    with torch.inference_mode():
        x = torch.randn(3, inputs).to(kind)
        torch.testing.assert_close(packed(x), plain(x), rtol=2e-2 if dtype == "bf16" else 1e-5, atol=2e-2)


def decoder(batch: int = 4) -> Decoder:
    weights = weights_of("fp32", model_type="mistral", sliding_window=40)
    cache = Cache(weights.shape, [5 * batch] * len(windows_of(weights.shape)), 16, torch.float32, CPU.torch)
    found = Decoder(weights, cache, CPU, batch, 64)
    found.place(cache.pages.start(50 + index) for index in range(batch))
    return found


def test_terms_can_be_left_out_of_a_step() -> None:
    with torch.inference_mode():
        one = decoder()
        for terms in ((), ("attention",), ("attention", "linears")):
            one.step(one.without(*terms))
            assert one.tokens.shape == (4,)
        step = captured(one.step, CPU)
        step()
        first = one.tokens.clone()
        one.feed([1, 2, 3, 4])
        step()
        one.feed([1, 2, 3, 4])
        second = one.tokens.clone()
        step()
        assert torch.equal(second, torch.tensor([1, 2, 3, 4]))
        assert first.shape == second.shape


def test_sampled_tokens_follow_the_distribution() -> None:
    torch.manual_seed(0)
    logits = torch.log(torch.tensor([0.5, 0.3, 0.15, 0.05])).expand(40_000, 4)
    counts = torch.bincount(sampler(1.0)(logits), minlength=4) / 40_000
    torch.testing.assert_close(counts, torch.tensor([0.5, 0.3, 0.15, 0.05]), rtol=0, atol=0.01)
    squared = torch.tensor([0.25, 0.09, 0.0225, 0.0025])
    counts = torch.bincount(sampler(0.5)(logits), minlength=4) / 40_000
    torch.testing.assert_close(counts, squared / squared.sum(), rtol=0, atol=0.01)
    assert torch.equal(sampler(0)(logits), torch.zeros(40_000, dtype=torch.int64))
