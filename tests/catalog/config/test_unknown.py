"""Keys that kvcalc does not know: said with the answer, never passed over, an error where asked for."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.catalog.cards import card_names, find_card
from kvcalc.catalog.models import load_card, without_doubts
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import active_parameters, total_parameters
from kvcalc.counting.weights import counted_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.model import ModelSpec
from tests.catalog.real_models import config_of, spec

DENSE = "Meta-Llama-3.1-8B"
MODELS = (DENSE, "DeepSeek-V3", "Qwen3.5-35B-A3B", "Gemma-3-27B", "Mixtral-8x7B-v0.1", "Falcon-H1-0.5B", "Qwen2.5-7B")
# Names that strangers' reports showed passed unread or refused, with values that say something.
REPORTED: dict[str, Any] = {
    "routed_expert_hidden_size": 3584, "latent_moe_use_norm": True, "decoder_sparse_step": 2, "lora_rank": 64,
    "adapter_rank": 64, "conv_dim": 1000, "mtp_share_layers": True, "mamba_d_conv": 3, "use_cla": True,
    "cla_share_factor": 2, "full_attention_interval": 5, "swa_layers": [0, 1], "nope_layers": [0, 1],
    "kda_layers": [1, 2], "use_mla": True, "block_pattern": ["rec", "rec", "attn"], "token_mixer": "gla",
    "mixer_types": ["a", "b"], "linear_attention": True, "yoco": True, "expert_dtype": "junk",
    "kv_compression_window": 7, "hybrid_state_size": 7, "num_memory_heads": 7, "latent_cache_dim": 7,
    "bottleneck_rank": 7, "per_layer_width": 7, "adapter_size": 7, "n_streams_of_something": 7, "kv_lora_rank": 512,
}  # fmt: skip


def bare(model: ModelSpec) -> ModelSpec:
    return replace(model, assumptions=(), doubts=())


def known_models() -> list[str]:
    from tests.catalog.real_models import MODELS as REAL

    return [name for name in MODELS if name in REAL]


@pytest.mark.parametrize("key", REPORTED)
@pytest.mark.parametrize("name", known_models())
def test_a_key_changes_the_answer_or_is_named_in_it(name: str, key: str) -> None:
    config = deepcopy(config_of(name))
    place = config.get("text_config") or config
    if key in place:
        return
    plain = spec(config)
    place[key] = REPORTED[key]
    model = spec(config)
    named = any(key in assumption.name for assumption in model.assumptions)
    same_as_said = key == "use_mla" and any(m.kind == "latent" for g in model.groups for m in g.mixers)
    assert named or bare(model) != bare(plain) or same_as_said


@pytest.mark.parametrize("key", ["kv_compression_window", "hybrid_state_size", "bottleneck_rank", "per_layer_width"])
def test_an_unknown_key_is_a_doubt_and_an_error_where_asked_for(key: str) -> None:
    model = spec(config_of(DENSE, **{key: 7}))
    assert [doubt.name for doubt in model.doubts] == [key]
    assert set(model.doubts) <= set(model.assumptions)
    assert key in model.warnings[0]
    with pytest.raises(KvcalcError, match=key) as error:
        without_doubts(model)
    assert "TOML card" in error.value.hint
    assert spec(config_of(DENSE, **{key: None})).doubts == ()  # off: it says nothing


def test_keys_that_change_nothing_pass() -> None:
    said = {"use_cache": True, "rope_theta": 5e5, "cache_implementation": "static", "router_aux_loss_coef": 0.1}
    model = spec(config_of(DENSE, **said))
    assert model.assumptions == spec(config_of(DENSE)).assumptions


def test_a_key_of_a_part_that_the_model_has_not_is_listed_without_a_warning() -> None:
    model = spec(config_of(DENSE, decoder_sparse_step=2))
    assert "decoder_sparse_step" in [assumption.name for assumption in model.assumptions]
    assert model.doubts == ()


@pytest.mark.parametrize("said", [{"n_head": 8}, {"n_kv_heads": 4}, {"n_layer": 16}, {"n_embd": 1024}])
def test_two_names_of_one_quantity_have_one_value(said: dict[str, int]) -> None:
    with pytest.raises(KvcalcError, match="they mean the same"):
        spec(config_of(DENSE, **said))


def test_the_same_value_under_two_names_is_well() -> None:
    assert spec(config_of(DENSE, n_head=32)).doubts == ()


def test_more_kinds_than_layers_are_told() -> None:
    model = spec(config_of(DENSE, layer_types=["full_attention"] * 40))
    assert "40 entries for 32 layers" in model.warnings[0]


@pytest.mark.parametrize("name", card_names())
def test_no_card_has_a_key_that_is_not_understood(name: str) -> None:
    card = find_card(name)
    assert card is not None
    assert load_card(card).doubts == ()


# Published: 2.8T parameters; its index has a total_size of 1,560,860,324,864 bytes, with a vision tower. Of 93 layers
# 69 recur, and 24 keep 512 + 64 elements of bf16 a token.
def test_kimi_k3s_experts_work_in_a_narrower_space() -> None:
    full = [*range(4, 93, 4), 93]
    linear = {"full_attn_layers": full, "kda_layers": [i for i in range(1, 94) if i not in full], "head_dim": 128,
              "num_heads": 96, "short_conv_kernel_size": 4, "use_full_rank_gate": True}  # fmt: skip
    weights = {"group_size": 32, "num_bits": 4, "type": "float", "strategy": "group", "symmetric": True}
    ignore = ["re:.*self_attn.*", "re:.*shared_experts.*", r"re:.*mlp\.(gate|up|down)_proj.*", "re:.*routed_expert_.*",
              "lm_head", "re:.*res_proj.*"]  # fmt: skip
    text = {
        "model_type": "kimi_linear", "hidden_size": 7168, "num_hidden_layers": 93, "num_attention_heads": 96,
        "num_key_value_heads": 96, "vocab_size": 163840, "intermediate_size": 33792, "q_lora_rank": 1536,
        "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "mla_use_output_gate": True, "linear_attn_config": linear, "attn_res_block_size": 12,
        "first_k_dense_replace": 1, "moe_intermediate_size": 3072, "routed_expert_hidden_size": 3584,
        "num_experts": 896, "num_experts_per_token": 16, "num_shared_experts": 2, "latent_moe_use_norm": True,
        "dtype": "bfloat16", "tie_word_embeddings": False,
        "quantization_config": {
            "config_groups": {"group_0": {"format": "mxfp4-pack-quantized", "targets": ["Linear"], "weights": weights}},
            "quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized", "ignore": ignore,
        },
    }  # fmt: skip
    model = spec({"model_type": "kimi_k3", "text_config": text})
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(2.78e12, rel=0.002)
    assert counted_weight_bytes(model) == pytest.approx(1_560_860_324_864, rel=0.001)
    assert cache_profile(model).bytes_per_token == 24 * (512 + 64) * 2


# Published: 389 B parameters, 52 B active (Hunyuan-Large, arXiv 2411.02265); two layers share one cache.
def test_hunyuans_layers_share_their_caches() -> None:
    model = spec(
        {"model_type": "hunyuan", "hidden_size": 6400, "intermediate_size": 18304, "num_hidden_layers": 64,
         "num_attention_heads": 80, "num_key_value_heads": 8, "vocab_size": 128512, "num_experts": 16, "moe_topk": 1,
         "num_shared_expert": 1, "use_cla": True, "cla_share_factor": 2, "use_mixed_mlp_moe": True, "use_qk_norm": True,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(389e9, rel=0.002)
    assert active_parameters(model) == pytest.approx(52e9, rel=0.02)
    assert cache_profile(model).bytes_per_token == 64 // 2 * 2 * 8 * 80 * 2


# Published: 1.29 B and 9.1 B parameters (pfnet/plamo-2-1b, -8b); every other layer recurs.
@pytest.mark.parametrize(
    ("hidden", "layers", "heads", "kv", "want"), [(2048, 16, 16, 1, 1.29e9), (4096, 32, 32, 4, 9.1e9)]
)
def test_plamo_2(hidden: int, layers: int, heads: int, kv: int, want: float) -> None:
    model = spec(
        {"model_type": "plamo2", "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
         "num_key_value_heads": kv, "hidden_size_per_head": 128, "intermediate_size": 4 * hidden, "vocab_size": 100000,
         "mamba_d_state": 64, "mamba_d_conv": 4, "mamba_num_heads": 2 * heads, "mamba_step": 2, "mamba_enabled": True,
         "tie_word_embeddings": True, "dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(want, rel=0.005)
    assert cache_profile(model).bytes_per_token == layers // 2 * 2 * kv * 128 * 2


# Published: 80 B parameters, 13 B active (tencent/Hunyuan-A13B-Instruct); its counts of experts are lists.
def test_counts_that_are_lists_of_one_entry_a_layer() -> None:
    model = spec(
        {"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072, "num_hidden_layers": 32,
         "moe_intermediate_size": [3072] * 32, "moe_topk": [8] * 32, "num_shared_expert": [1] * 32, "num_experts": 64,
         "num_attention_heads": 32, "num_key_value_heads": 8, "attention_head_dim": 128, "vocab_size": 128167,
         "use_cla": False, "cla_share_factor": 2, "use_mixed_mlp_moe": True, "use_qk_norm": True,
         "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(80.4e9, rel=0.002)
    assert active_parameters(model) == pytest.approx(13e9, rel=0.03)
    assert cache_profile(model).bytes_per_token == 32 * 2 * 8 * 128 * 2


# Published: 2.95 B parameters (RWKV7-Goose-World3-2.9B-HF); its state is a 64 × 64 matrix a head in fp32.
def test_rwkv_7_keeps_a_state_and_no_tokens() -> None:
    model = spec(
        {"model_type": "rwkv7", "hidden_size": 2560, "hidden_ratio": 4.0, "intermediate_size": 10240, "head_dim": 64,
         "num_hidden_layers": 32, "num_heads": 32, "a_low_rank_dim": 96, "decay_low_rank_dim": 96,
         "gate_low_rank_dim": 320, "v_low_rank_dim": 64, "vocab_size": 65536, "norm_first": True, "norm_bias": True,
         "attn": None, "attn_mode": "chunk", "value_dim": [2560] * 32, "fuse_norm": True, "torch_dtype": "bfloat16",
         "tie_word_embeddings": False}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(2.95e9, rel=0.002)
    assert cache_profile(model).bytes_per_token == 0
    assert cache_profile(model).fixed_bytes == 32 * (40 * 64 * 64 * 4 + 2 * 2560 * 2)


# Published: 14.5 B parameters (baichuan-inc/Baichuan-M1-14B-Instruct); windowed layers have heads of their own.
def test_windowed_layers_with_heads_of_their_own() -> None:
    model = spec(
        {"model_type": "baichuan_m1", "hidden_size": 5120, "intermediate_size": 17408, "num_hidden_layers": 40,
         "num_attention_heads": 20, "num_key_value_heads": 2, "num_swa_attention_heads": 40,
         "num_swa_key_value_heads": 8, "sliding_window": 8192, "sliding_window_layers": list(range(1, 40, 2)),
         "conv_window": 2, "vocab_size": 133120, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    )  # fmt: skip
    assert model.doubts == ()
    assert total_parameters(model) == pytest.approx(14.5e9, rel=0.005)
    assert cache_profile(model).bytes_per_token_at_start == 20 * 2 * 2 * 256 * 2 + 20 * 2 * 8 * 128 * 2
    assert cache_profile(model).fixed_bytes == 20 * 2 * 2 * 256 * 2 + 20 * 2 * 8 * 128 * 2  # a column of each


def test_a_list_of_windows_with_nulls_for_layers_without() -> None:
    config = config_of(DENSE, model_type="newcomer", sliding_window=[512, None] * 16)
    windows = {m.window: g.count for g in spec(config).groups for m in g.mixers if m.kind == "attention"}
    assert windows == {512: 16, None: 16}


def test_layers_with_a_window_by_their_indices() -> None:
    model = spec(config_of(DENSE, swa_layers=[0, 1, 2], sliding_window=1024))
    assert {m.window: g.count for g in model.groups for m in g.mixers if m.kind == "attention"} == {1024: 3, None: 29}


def test_the_only_nested_config_with_a_vocabulary_is_the_decoder() -> None:
    inner = config_of(DENSE)
    model = spec({"model_type": "newcomer_vl", "eyes_config": {"hidden_size": 64}, "mouth_config": inner})
    assert total_parameters(model) == total_parameters(spec(inner))
    assert "mouth_config" in [doubt.name for doubt in model.doubts]


def test_a_period_in_a_family_that_is_not_known() -> None:
    config = config_of(DENSE, model_type="newcomer", sliding_window_pattern=4, sliding_window=512)
    windows = {m.window: g.count for g in spec(config).groups for m in g.mixers if m.kind == "attention"}
    assert windows == {512: 24, None: 8}


@pytest.mark.parametrize("name", [DENSE, "DeepSeek-V2-Lite", "Qwen3-Next-80B-A3B-Instruct"])
@given(key=st.text(min_size=1, max_size=120), value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=5,
))  # fmt: skip
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_key_is_named_or_says_nothing(name: str, key: str, value: Any) -> None:
    config = config_of(name)
    if key in config:
        return
    try:
        model = spec(config | {key: value})
    except KvcalcError:  # a name that kvcalc reads, with a value that cannot be
        return
    said = [assumption.name for assumption in model.assumptions]
    assert all(letter.isprintable() for name in said for letter in name)
    off = value is None or value in (False, 0, "", [], {})
    plain = spec(config_of(name))
    assert off or bare(model) != bare(plain) or len(said) > len(plain.assumptions) or weighs_nothing(key)


def weighs_nothing(key: str) -> bool:
    """Names of the class that changes nothing: `*_act`, `rope_*` and the like."""
    from kvcalc.catalog.config import unknown

    return unknown._harmless(key) or len(key) > 80
