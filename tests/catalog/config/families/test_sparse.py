"""Which layers are mixtures of experts."""

from typing import Any

import pytest

from kvcalc.catalog.config.families.sparse import mlp_kinds
from kvcalc.catalog.config.families.table import traits_of
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError


@pytest.mark.parametrize(
    ("model_type", "config", "want"),
    [
        ("llama", {}, "dddd"),
        ("qwen3_moe", {"num_experts": 128, "mlp_only_layers": [1]}, "mdmm"),
        ("qwen3_moe", {"num_experts": 128, "decoder_sparse_step": 2, "intermediate_size": 64}, "dmdm"),
        ("deepseek_v3", {"n_routed_experts": 256, "first_k_dense_replace": 3}, "dddm"),
        ("deepseek_v2", {"n_routed_experts": 64, "moe_layer_freq": 2}, "mdmd"),
        ("mimo_v2_flash", {"n_routed_experts": 256, "moe_layer_freq": [0, 1, 1, 1]}, "dmmm"),
        ("llama4_text", {"num_local_experts": 16, "interleave_moe_layer_step": 2}, "dmdm"),
        ("jamba", {"num_experts": 16, "expert_layer_period": 2, "expert_layer_offset": 1}, "dmdm"),
        ("glm4_moe_lite", {"n_routed_experts": 64, "mlp_layer_types": ["dense", "sparse", "sparse"]}, "dmm"),
        ("lfm2_moe", {"num_experts": 32, "num_dense_layers": 2}, "ddmm"),
        ("ernie4_5_moe", {"moe_num_experts": 64, "moe_layer_start_index": 1}, "dmmm"),
        ("step3p5", {"moe_num_experts": 288, "moe_layers_enum": [2, 3]}, "ddmm"),
        ("gemma4_text", {"num_experts": 128, "enable_moe_block": False}, "dd"),
        ("mixtral", {"num_local_experts": 8}, "mm"),
        ("granitemoehybrid", {"num_local_experts": 0}, "dd"),
    ],
)
def test_each_way_of_saying_it(model_type: str, config: dict[str, Any], want: str) -> None:
    found = mlp_kinds(Keys(config), traits_of(model_type), ["full"] * len(want))
    assert "".join(kind[0] for kind in found) == want


def test_a_layer_of_nemotron_is_one_thing() -> None:
    found = mlp_kinds(Keys({"n_routed_experts": 8}), traits_of("nemotron_h"), ["recurrent", "moe", "full", "mlp"])
    assert found == ["none", "moe", "none", "dense"]


def test_an_unknown_kind_of_mlp() -> None:
    with pytest.raises(KvcalcError, match="mlp_layer_types"):
        mlp_kinds(Keys({"mlp_layer_types": ["holographic"]}), traits_of("qwen3_moe"), ["full"])
