"""The dimensions that a profile run depends on are of the widest layers."""

from engines.models import GEMMA_3_27B, gqa, latent, model

from kvcalc.engines import capacity
from kvcalc.engines.memory.shape import profile_shape
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import FP8_BLOCK
from kvcalc.specs.model import DenseMlp, LayerGroup, ModelSpec, MoeMlp, Tensor, Tower


def mixed() -> ModelSpec:
    """Two kinds of dense layers and two of experts, over seven layers."""
    matrix = Tensor(name="w", shape=(256, 256), category="attention", format=FP8_BLOCK)
    expert = Tensor(name="e", shape=(512, 256), category="experts", format=FP8_BLOCK)
    groups = (
        LayerGroup(layers=(0,), mixers=(gqa(8, 128),), mlp=DenseMlp(width=1000)),
        LayerGroup(layers=(1, 2), mixers=(latent(heads=64),), mlp=DenseMlp(width=3000), tensors=(matrix, expert)),
        LayerGroup(layers=(3, 4), mixers=(latent(index=True),), mlp=MoeMlp(experts=8, top_k=2, expert_width=700)),
        LayerGroup(layers=(5, 6), mlp=MoeMlp(experts=8, top_k=4, expert_width=500, shared_width=900, gated=False)),
    )
    towers = tuple(Tower(name=str(n), kind="vision", hidden=100 * n, layers=10 - n) for n in (1, 2))
    return replace(model(), groups=groups, towers=towers)


def test_the_widest_of_each_kind_counts() -> None:
    found = profile_shape(mixed(), Deployment(pipeline_parallel_size=2, tensor_parallel_size=2))
    assert (found.layers, found.element_bytes, found.gated, found.moe) == (4, 2, False, True)
    assert (found.dense_width, found.shared_width, found.expert_width, found.top_k) == (3000, 900, 700, 4)
    assert found.latents is not None
    assert (found.latents.query_heads, found.latents.indexed) == (128, True)
    assert (found.tower_layers, found.tower_hidden) == (9, 200)
    # Two matrices of 256 x 256 in fp8 with four scales of 32 bits, over four ranks; experts are not dense.
    assert found.scaled_dense_bytes == 2 * (256 * 256 + 4 * 4) // 4
    wide = profile_shape(mixed(), checked(Deployment, {"dtype": "float32"}))
    assert (wide.element_bytes, wide.layers) == (4, 7)


def test_padded_layers_are_said() -> None:
    # 52 windowed layers and ten others in groups of ten: six groups of windows hold sixty.
    found = capacity(GEMMA_3_27B, Deployment(max_num_batched_tokens=8192), 10**10)
    assert "8 padded" in found.rounding, found.rounding
