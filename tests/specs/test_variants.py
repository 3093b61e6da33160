"""The same model with another cache, against arithmetic on the published dimensions."""

import pytest

from kvcalc.catalog.models import load_model
from kvcalc.counting.cache import cache_profile
from kvcalc.specs.variants import architecture_variants

MHA = "a KV head per query head, MHA"
FULL = "full heads instead of the latent"
OPEN = "no window"


@pytest.mark.parametrize("model, variant, bytes_per_token", [
    ("llama-3-8b", MHA, 32 * 2 * 32 * 128 * 2),  # 32 layers of 32 query heads; 8 KV heads as it is
    ("deepseek-v3", FULL, 61 * 128 * (128 + 64 + 128) * 2),  # 128 heads: key 128 + 64 rotary, value 128
    ("gpt-oss-120b", OPEN, 36 * 2 * 8 * 64 * 2),  # half of the 36 layers have a window of 128
])  # fmt: skip
def test_what_a_trick_saves(model: str, variant: str, bytes_per_token: int) -> None:
    found = dict(architecture_variants(load_model(model)))
    assert cache_profile(found[variant]).bytes_per_token == bytes_per_token


def test_a_change_that_changes_nothing_is_no_variant() -> None:
    assert architecture_variants(load_model("llama-2-7b")) == ()  # MHA already, no window, nothing shared


def test_the_weights_stay() -> None:
    plain = load_model("llama-3-8b")
    for _, other in architecture_variants(plain):
        assert [group.tensors for group in other.groups] == [group.tensors for group in plain.groups]
        assert other.layers == plain.layers
