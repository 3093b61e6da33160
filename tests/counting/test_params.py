"""Parameters by category and per token, from published counts and dimensions."""

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.counting.params import active_parameters, mtp_parameters, parameters_by_category, total_parameters


def test_llama_3_8b_by_category() -> None:
    """8,030,261,248 in all: an embedding and a head, 32 layers, norms before each half of a layer and at the end."""
    found = parameters_by_category(load_model("llama-3-8b"))
    assert found["embedding"] == found["head"] == 128_256 * 4096
    assert found["attention"] == 32 * (2 * 4096 * 4096 + 2 * 1024 * 4096)
    assert found["mlp"] == 32 * 3 * 14_336 * 4096
    assert sum(found.values()) == total_parameters(load_model("llama-3-8b")) == 8_030_261_248


def test_qwen3_30b_a3b_by_category() -> None:
    """48 layers of 128 experts, eight of them for each token: "30.5B in total and 3.3B activated"."""
    spec = load_model("qwen3-30b-a3b")
    experts = 48 * 128 * 3 * 768 * 2048
    assert parameters_by_category(spec)["experts"] == experts
    assert total_parameters(spec) - active_parameters(spec) == experts - experts * 8 // 128
    assert active_parameters(spec) == pytest.approx(3.35e9, rel=0.01)


def test_towers_count_in_the_whole_and_not_for_a_token() -> None:
    spec = load_model("llava-1.5-7b")
    towers = sum(tensor.parameters for tower in spec.towers for tensor in tower.tensors)
    assert towers == pytest.approx(0.32e9, rel=0.1)  # ViT-L/14 at 336 px, 304M, and a projector of two layers
    assert total_parameters(spec) - active_parameters(spec) == towers
    assert sum(parameters_by_category(spec).values()) == total_parameters(spec)


def test_mtp_layers_are_counted_apart() -> None:
    """DeepSeek-V3's README_WEIGHTS: 671B, and 11.5B with copies of the embedding and the head beside them."""
    spec = load_model("deepseek-v3")
    assert total_parameters(spec) == pytest.approx(671e9, rel=1e-3)
    assert mtp_parameters(spec) - 2 * 129_280 * 7168 == pytest.approx(11.5e9, rel=0.01)
    assert mtp_parameters(load_model("llama-3-8b")) == 0
