"""A context that nobody asked for: llama.cpp lowers the model's own until it fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.catalog.quantization.online import requantize
from kvcalc.engines.lowered import lowered_length
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.units import GIB

LLAMA = requantize(load_model("llama-3.1-8b"), "q4_k_m", ("gguf",))
CARD = load_gpu("rtx4070")


def llamacpp(**fields: object) -> Deployment:
    return checked(Deployment, {"engine": "llamacpp", **fields})


def test_it_is_lowered_until_a_gibibyte_stays_free() -> None:
    found = lowered_length(LLAMA, CARD, llamacpp())
    assert found is not None
    cache = found.tokens * 131_072  # 32 layers x 2 x 8 heads x 128 elements of 2 bytes
    assert CARD.usable_memory_bytes - 4_912_898_048 - cache > GIB
    assert found.tokens % 256 == 0
    assert 32_768 < found.tokens < 131_072
    assert "131,072" in found.assumption.why


@pytest.mark.parametrize(
    "deployment",
    [llamacpp(max_model_len=131_072), llamacpp(kv_memory_bytes=2**30), llamacpp(ctx_size=8192),
     checked(Deployment, {"engine": "vllm"}), checked(Deployment, {"engine": "ideal"})],
)  # fmt: skip
def test_what_was_asked_for_is_not_touched_and_other_engines_refuse_instead(deployment: Deployment) -> None:
    assert lowered_length(LLAMA, CARD, deployment) is None


def test_nothing_is_lowered_where_all_fits_or_too_little_does() -> None:
    assert lowered_length(LLAMA, load_gpu("h100-sxm"), llamacpp()) is None
    assert lowered_length(LLAMA, load_gpu("gtx1060-6g"), llamacpp()) is None  # layers leave the card then


def test_builds_before_took_a_fixed_length() -> None:
    """-c was 4,096 by default until the end of 2025 (common/common.h)."""
    old = lowered_length(LLAMA, load_gpu("h100-sxm"), llamacpp(engine_version="b5000"))
    assert old is not None
    assert old.tokens == 4096
    assert lowered_length(LLAMA, load_gpu("h100-sxm"), llamacpp(engine_version="b8000")) is None


@given(st.integers(8 * GIB, 40 * GIB), st.integers(0, 2 * GIB))
def test_more_memory_never_shortens_it(memory: int, more: int) -> None:
    def length(usable: int) -> int:
        found = lowered_length(LLAMA, replace(CARD, usable_memory_bytes=usable), llamacpp())
        return 131_072 if found is None else found.tokens

    assert length(memory) <= length(memory + more)
