"""What does not divide is refused, with what would."""

import pytest
from engines.models import (
    DEEPSEEK_V3,
    GEMMA_3_1B,
    GPT_OSS_20B,
    LLAMA_3_8B,
    QWEN3_5_27B,
    QWEN3_NEXT,
    gqa,
    model,
)

from kvcalc.counting.layout_check import check_layout
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import DenseMlp, LayerGroup, ModelSpec, MoeMlp


def with_mlp(mlp: DenseMlp | MoeMlp) -> ModelSpec:
    group = LayerGroup(layers=(0, 1), mixers=(gqa(8, 128),), mlp=mlp)
    return replace(LLAMA_3_8B, groups=(group,))


@pytest.mark.parametrize(
    "spec, sizes, words",
    [
        (LLAMA_3_8B, {"tensor_parallel_size": 3}, "32 query heads"),
        (model((4, gqa(6, 64, query_heads=48))), {"tensor_parallel_size": 4}, "6 KV heads"),
        (LLAMA_3_8B, {"pipeline_parallel_size": 33}, "exceeds the 32 layers"),
        (model((4, gqa(12, 64, query_heads=12)), vocab=50257), {"tensor_parallel_size": 12}, None),
        (QWEN3_5_27B, {"tensor_parallel_size": 32}, "heads"),
        (with_mlp(DenseMlp(width=1000)), {"tensor_parallel_size": 16}, "columns of the MLP"),
        (with_mlp(MoeMlp(experts=8, top_k=2, expert_width=1000)), {"tensor_parallel_size": 16}, "columns of an expert"),
        (LLAMA_3_8B, {"enable_expert_parallel": True}, "no experts"),
        (with_mlp(MoeMlp(experts=8, top_k=2, expert_width=1024)), {"num_redundant_experts": 2}, "need expert"),
        (
            with_mlp(MoeMlp(experts=8, top_k=2, expert_width=1024)),
            {"enable_expert_parallel": True, "data_parallel_size": 16},
            "some would be idle",
        ),
        (LLAMA_3_8B, {"tensor_parallel_size": 16, "decode_context_parallel_size": 3}, "does not divide"),
        (LLAMA_3_8B, {"tensor_parallel_size": 8, "decode_context_parallel_size": 2}, "for each of the 8 KV heads"),
        (GEMMA_3_1B, {"tensor_parallel_size": 2, "decode_context_parallel_size": 2}, "windowed"),
        (QWEN3_NEXT, {"tensor_parallel_size": 4, "decode_context_parallel_size": 2}, "recurrent"),
    ],
)
def test_refusals(spec: ModelSpec, sizes: dict[str, object], words: str | None) -> None:
    if words is None:
        check_layout(spec, checked(Layout, sizes))
        return
    with pytest.raises(KvcalcError, match=words):
        check_layout(spec, checked(Layout, sizes))


@pytest.mark.parametrize(
    "spec, sizes",
    [
        (LLAMA_3_8B, {"tensor_parallel_size": 16, "decode_context_parallel_size": 2}),
        (DEEPSEEK_V3, {"tensor_parallel_size": 8, "decode_context_parallel_size": 8}),
        (GPT_OSS_20B, {"tensor_parallel_size": 4, "pipeline_parallel_size": 3}),
        (
            with_mlp(MoeMlp(experts=8, top_k=2, expert_width=1000)),
            {"tensor_parallel_size": 8, "enable_expert_parallel": True, "num_redundant_experts": 2},
        ),
    ],
)
def test_what_divides(spec: ModelSpec, sizes: dict[str, object]) -> None:
    check_layout(spec, checked(Layout, sizes))


@pytest.mark.parametrize(
    "spec, tried, sizes",
    [
        (model((4, gqa(8, 128, query_heads=40))), 16, "1, 2, 4, 8"),  # 40 heads divide by 5, the 8 KV heads do not
        (model((4, gqa(4, 128, query_heads=24))), 3, "1, 2, 4, 8, 12"),
        (with_mlp(MoeMlp(experts=8, top_k=2, expert_width=12)), 16, "1, 2, 4"),
        (LLAMA_3_8B, 3, "1, 2, 4, 8, 16, 32"),
        (model((4, gqa(64, 128, query_heads=64))), 3, "1, 2, 4, 8, 16, 32, 64"),
        (model((4, gqa(15, 128, query_heads=15)), vocab=64 * 15), 2, "1, 3, 5"),
        (model((4, gqa(24, 128, query_heads=24)), vocab=64 * 6), 5, "1, 2, 3, 4, 6, 8, 12"),
    ],
)
def test_the_hint_names_sizes_that_pass(spec: ModelSpec, tried: int, sizes: str) -> None:
    with pytest.raises(KvcalcError) as caught:
        check_layout(spec, Layout(tensor_parallel_size=tried))
    assert str(caught.value.hint).endswith(f": {sizes}")
    for size in map(int, sizes.split(", ")):
        check_layout(spec, Layout(tensor_parallel_size=size))


def test_the_hint_names_what_divides() -> None:
    # Twelve heads, and 50,257 words padded to 50,304 = 12 · 4,192.
    with pytest.raises(KvcalcError) as refused:
        check_layout(model((4, gqa(12, 64, query_heads=12)), vocab=50257), Layout(tensor_parallel_size=5))
    assert (refused.value.hint or "").endswith(": 1, 2, 3, 4, 6, 12")
