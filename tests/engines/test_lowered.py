"""A context that nobody asked for: llama.cpp lowers the model's own until it fits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.catalog.quantization.online import requantize
from kvcalc.engines import loaded_weight_bytes
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


TOKEN = 131_072  # 32 layers x 2 x 8 heads x 128 elements of 2 bytes


def buffer(rows: int) -> int:
    """Logits and hidden states in float32."""
    return rows * (128_256 + 4096) * 4


@pytest.mark.parametrize(
    "rows, kept",
    [
        (512, int(0.8 * GIB) + 4 * buffer(512)),  # the pool's low end lies more than a gibibyte below its value
        (64, int(0.4 * GIB) + buffer(64) + GIB),
    ],
)
def test_tokens_beside_what_is_kept(rows: int, kept: int) -> None:
    found = lowered_length(LLAMA, CARD, llamacpp(ubatch_size=rows))
    assert found is not None
    weights = loaded_weight_bytes(LLAMA, llamacpp())
    assert found.tokens == (CARD.usable_memory_bytes - weights - kept) // TOKEN // 256 * 256


@pytest.mark.parametrize("tokens, lowered", [(4096, 4096), (4095, None), (131_071, 130_816), (131_072, None)])
def test_no_less_than_4096_tokens(tokens: int, lowered: int | None) -> None:
    """`--fit-ctx` of llama.cpp."""
    needed = loaded_weight_bytes(LLAMA, llamacpp()) + int(0.8 * GIB) + 4 * buffer(512) + tokens * TOKEN
    found = lowered_length(LLAMA, replace(CARD, usable_memory_bytes=needed), llamacpp())
    assert (found.tokens if found else None) == lowered


@pytest.mark.parametrize("version, longest, tokens", [("b7409", 131_072, 4096), ("b7410", 131_072, None),
                                                      ("b7409", 4097, 4096), ("b7409", 4096, None)])  # fmt: skip
def test_the_build_that_fits_by_itself(version: str, longest: int, tokens: int | None) -> None:
    """--fit came with pull request 16653, build 7410."""
    found = lowered_length(replace(LLAMA, max_context=longest), load_gpu("h100-sxm"), llamacpp(engine_version=version))
    assert (found.tokens if found else None) == tokens


@given(st.integers(8 * GIB, 40 * GIB), st.integers(0, 2 * GIB))
def test_more_memory_never_shortens_it(memory: int, more: int) -> None:
    def length(usable: int) -> int:
        found = lowered_length(LLAMA, replace(CARD, usable_memory_bytes=usable), llamacpp())
        return 131_072 if found is None else found.tokens

    assert length(memory) <= length(memory + more)
