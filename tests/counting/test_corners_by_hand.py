"""Corners of the counts: layers without a mixer, copies beyond experts, tables that are tied, what leaves a node."""

import pytest
from engines.models import LLAMA_3_8B, compressed, gqa, latent

from kvcalc.catalog.models import load_model
from kvcalc.counting.cache import mixer_cache
from kvcalc.counting.layout import RankWeights, leaves_node, local_tensor
from kvcalc.counting.operators.links import layer_collectives
from kvcalc.counting.operators.matmul import head_operators, layer_gemms
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Step, woken
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import CrossAttention, DenseMlp, Indexer, LayerGroup, MoeMlp, Tensor

STEP = Step(decode=5, context=9)


def test_an_index_is_kept_beside_keys_and_values() -> None:
    (found,) = mixer_cache(gqa(8, 128, indexer=Indexer(heads=4, head_dim=128, top_k=2048)), LLAMA_3_8B, "bf16")
    assert (found.bytes_per_token, found.index_bytes_per_token, found.read_limit) == (4096 + 256, 256, 2048)


def test_an_index_is_kept_beside_latents() -> None:
    for dtype, size in (("bf16", 2), ("fp8", 1)):
        (found,) = mixer_cache(latent(index=True), LLAMA_3_8B, dtype)
        assert (found.bytes_per_token, found.index_bytes_per_token) == ((576 + 128) * size, 128 * size)


def test_a_compressors_state_is_in_float32() -> None:
    _, history = mixer_cache(replace(compressed(128), state_elements=1000), LLAMA_3_8B, "fp8")
    assert (history.fixed_bytes, history.bytes_per_token) == (4000, 512 / 128)


def test_the_fullest_stage_counts() -> None:
    assert RankWeights((1, 3, 2)).fullest == 3


@pytest.mark.parametrize("copies, each", [(8, 3), (16, 6)])
def test_redundant_experts_bring_all_their_matrices(copies: int, each: int) -> None:
    """Eight experts and four more over four ranks: three of each matrix, or six where gate and up are copies."""
    tensor = Tensor(name="w", shape=(64, 128), copies=copies, category="experts", split="columns", matmul=True)
    group = LayerGroup(layers=(0,), mlp=MoeMlp(experts=8, top_k=2, expert_width=64), tensors=(tensor,))
    layout = Layout(tensor_parallel_size=4, enable_expert_parallel=True, num_redundant_experts=4)
    assert local_tensor(tensor, group, layout) == (each, (64, 128))


@pytest.mark.parametrize(
    "tp, dp, dealt, words",
    [
        (8, 2, True, "expert parallelism over 16 GPUs leaves the node of 8"),
        (4, 4, False, "experts sliced over 16 GPUs leave the node of 8"),
        (4, 2, False, None),
        (4, 2, True, None),
    ],
)
def test_experts_that_leave_a_node(tp: int, dp: int, dealt: bool, words: str | None) -> None:
    layout = Layout(
        tensor_parallel_size=tp, data_parallel_size=dp, enable_expert_parallel=dealt, experts_over_replicas=not dealt
    )
    assert leaves_node(layout, 8) == words


@pytest.mark.parametrize("mixers, mlp, sums", [((), DenseMlp(width=64), 1), ((gqa(8, 128),), None, 1),
                                               ((gqa(8, 128),), DenseMlp(width=64), 2)])  # fmt: skip
def test_a_half_layer_is_summed_once(mixers: tuple[object, ...], mlp: DenseMlp | None, sums: int) -> None:
    group = LayerGroup(layers=(0, 1, 2), mixers=mixers, mlp=mlp)  # type: ignore[arg-type]
    found = list(layer_collectives(group, LLAMA_3_8B, Layout(tensor_parallel_size=2), STEP))
    assert [one.count for one in found] == [3 * sums]


def test_only_the_encoders_side_is_projected_once() -> None:
    """A layer with both attentions: keys of the text for its rows, keys of 100 source tokens for each prompt."""
    cross = CrossAttention(query_heads=8, kv_heads=8, head_dim=64, source_tokens=100)
    tensors = tuple(
        Tensor(name=f"{module}.k_proj.weight", shape=(512, 512), category="attention", split="kv", matmul=True)
        for module in ("self_attn", "cross_attn")
    )
    group = LayerGroup(layers=(0,), mixers=(gqa(8, 64, 8), cross), tensors=tensors)
    found = layer_gemms(group, LLAMA_3_8B, Layout(), Step(prompts=2, tokens=30))
    assert sorted(one.rows for one in found) == [60, 200]


@pytest.mark.parametrize("tp", [1, 4])
def test_woken_experts_are_read_by_their_parts(tp: int) -> None:
    found = step_operators(load_model("mixtral-8x7b"), Layout(tensor_parallel_size=tp), STEP, "bf16")
    experts = next(one for one in found if one.kind == "experts")
    assert experts.weight_bytes == pytest.approx(woken(8, 2, 5) * 3 * 4096 * 14336 * 2 / tp)
    assert experts.experts is not None
    assert experts.experts.expert_bytes == 3 * 4096 * 14336 * 2 / tp


@pytest.mark.parametrize("tied, tables", [(True, ("embedding",)), (True, ("embedding", "head")),
                                          (False, ("embedding", "head"))])  # fmt: skip
def test_there_is_one_head(tied: bool, tables: tuple[str, ...]) -> None:
    tensors = tuple(
        Tensor(name=name, shape=(1024, 64), category=name, split="vocab", matmul=name == "head")  # type: ignore[arg-type]
        for name in tables
    )
    spec = replace(LLAMA_3_8B, tensors=tensors, tied_embeddings=tied)
    assert [(one.name, one.flops) for one in head_operators(spec, Layout(), STEP)] == [("head", 2 * 5 * 1024 * 64)]


@pytest.mark.parametrize("tp", [1, 2])
def test_a_recurrent_layer_moves_its_channels_twice(tp: int) -> None:
    """Qwen3-Next: 8,192 channels, 16 heads of 256, one shared expert of 512, 2,048 wide."""
    found = step_operators(load_model("qwen3-next-80b-a3b"), Layout(tensor_parallel_size=tp), STEP, "bf16")
    elements = {one.activation_bytes / (2 * 5) for one in found if one.kind == "elementwise"}
    assert elements == {4 * 2048 + (2 * 8192 + 3 * 512) / tp, 4 * 2048 + (2 * 16 * 256 + 3 * 512) / tp}
