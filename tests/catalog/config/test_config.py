"""config.json → ModelSpec against exact counts and measured caches (data/models.toml, data/class_counts.json)."""

import json
from typing import Any

import pytest

from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import active_parameters, mtp_parameters, parameters_by_category, total_parameters
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.model import LatentAttention, ModelSpec, Recurrent
from tests.catalog.real_models import DATA, MODELS, config_of, spec

CLASSES: dict[str, Any] = json.loads((DATA / "class_counts.json").read_text(encoding="utf-8"))["classes"]


@pytest.mark.parametrize("name", MODELS)
def test_parameters_are_exact(name: str) -> None:
    model = spec(config_of(name))
    assert total_parameters(model) == MODELS[name]["parameters"]
    assert sum(parameters_by_category(model).values()) == MODELS[name]["parameters"]


@pytest.mark.parametrize("name", [name for name, case in MODELS.items() if "active" in case])
def test_active_parameters_are_exact(name: str) -> None:
    assert active_parameters(spec(config_of(name))) == MODELS[name]["active"]


@pytest.mark.parametrize("name", [name for name, case in MODELS.items() if "bytes_per_token" in case])
def test_cache_and_state_are_those_of_the_real_cache_objects(name: str) -> None:
    case, model = MODELS[name], spec(config_of(name))
    layers = range(min(case["layers_measured"], model.layers))
    profile = cache_profile(replace(model, dtype="bf16"), "bf16", layers=layers)
    assert profile.bytes_per_token_at_start == case["bytes_per_token"]
    assert profile.fixed_bytes + last_columns(model, layers) == case.get("fixed_bytes", 0)


def last_columns(model: ModelSpec, layers: range) -> int:
    """transformers keeps K columns of a convolution, kvcalc K − 1."""
    return sum(
        2 * mixer.conv_channels * len(set(layers).intersection(group.layers))
        for group in model.groups
        for mixer in group.mixers
        if isinstance(mixer, Recurrent)
    )


@pytest.mark.parametrize("model_type", CLASSES)
def test_class_defaults_and_single_changes_are_exact(model_type: str) -> None:
    for changes, want in CLASSES[model_type]:
        assert total_parameters(spec({"model_type": model_type, **changes})) == want, changes


# Published: the tensors of the checkpoints (DeepSeek-V3's and GLM-4.5-Air's model pages: 685 B and 110 B).
@pytest.mark.parametrize(
    ("name", "layers", "want"), [("DeepSeek-V3", 1, 13_463_426_048), ("GLM-4.5-Air", 1, 3_616_573_440)]
)
def test_mtp_layers_are_counted_apart(name: str, layers: int, want: int) -> None:
    model = spec(config_of(name, num_nextn_predict_layers=layers))
    assert mtp_parameters(model) == want
    assert total_parameters(model) == MODELS[name]["parameters"]
    assert [group.layers for group in model.mtp] == [(model.layers,)]


def test_qwens_mtp_layer_has_full_attention() -> None:
    model = spec(config_of("Qwen3.5-35B-A3B"))
    assert [mixer.kind for group in model.mtp for mixer in group.mixers] == ["attention"]
    assert model.mtp[0].path(0, model.mtp[0].tensors[0]) == "mtp.layers.0.self_attn.q_proj"


def test_a_class_default_of_mtp_layers_is_no_mtp_layer() -> None:
    config = config_of("DeepSeek-V3")
    config.pop("num_nextn_predict_layers", None)
    assert spec(config).mtp == ()


# The survey's questions (golden cases), ideal part.
def test_deepseek_v3_keeps_latents() -> None:
    model = spec(config_of("DeepSeek-V3"))
    assert cache_profile(model).bytes_per_token == 70_272
    mixer = model.groups[0].mixers[0]
    assert isinstance(mixer, LatentAttention)
    assert mixer.kv_lora_rank + mixer.rope_head_dim == 576


@pytest.mark.parametrize("pattern", [None, 6])
def test_gemma_3_without_its_pattern_has_its_classes(pattern: int | None) -> None:
    config = {
        "model_type": "gemma3_text", "hidden_size": 5376, "num_hidden_layers": 62, "num_attention_heads": 32,
        "num_key_value_heads": 16, "head_dim": 128, "intermediate_size": 21504, "vocab_size": 262208,
        "sliding_window": 1024,
    }  # fmt: skip
    if pattern:
        config["sliding_window_pattern"] = pattern
    profile = cache_profile(spec(config))
    assert profile.stored(131_072) == 11_173_625_856
    assert profile.bytes_per_token == 81_920


def test_gpt_oss_alternates() -> None:
    assert cache_profile(spec(config_of("gpt-oss-120b"))).stored(131_072) == 4_836_556_800


def test_qwen3_next_state() -> None:
    model = spec(config_of("Qwen3-Next-80B-A3B-Instruct"))
    assert cache_profile(model).bytes_per_token == 24_576
    assert cache_profile(model, state_dtype="fp32").fixed_bytes == 77_266_944
    assert cache_profile(model, state_dtype="bf16").fixed_bytes == 39_518_208


# LongCat-Flash's technical report (2025): 560 B parameters, two attentions and two MLPs a layer.
def test_longcat_has_two_of_everything_but_experts() -> None:
    model = spec({"model_type": "longcat_flash"})
    assert total_parameters(model) == 560_664_958_976
    assert cache_profile(model).bytes_per_token == 56 * 576 * 2


# Phi-3-small's model page: 7.39 B parameters.
def test_phi_3_small_keeps_every_token() -> None:
    model = spec({
        "model_type": "phi3small", "hidden_size": 4096, "ff_intermediate_size": 14336, "num_hidden_layers": 32,
        "num_attention_heads": 32, "num_key_value_heads": 8, "vocab_size": 100352, "dense_attention_every_n_layers": 2,
    })  # fmt: skip
    assert total_parameters(model) == 7_392_272_384
    assert cache_profile(model).bytes_per_token == 131_072
    assert [assumption.name for assumption in model.assumptions] == ["dtype", "attention"]


NAS = {
    "model_type": "nemotron-nas", "hidden_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
    "num_key_value_heads": None, "vocab_size": 1000, "tie_word_embeddings": False,
    "block_configs": [
        {"attention": {"n_heads_in_group": 4}, "ffn": {"ffn_mult": 2.0}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 1.0}},
        {"attention": {"replace_with_linear": True}, "ffn": {"no_op": True}},
        {"attention": {"n_heads_in_group": 8, "window_length": 1024}, "ffn": {"replace_with_linear": True}},
    ],
}  # fmt: skip


def test_searched_blocks() -> None:
    model = spec(NAS)
    profile = cache_profile(model)
    # keys and values of 64 elements: two heads in the first block, one in the last, none between
    assert (profile.bytes_per_token, profile.bytes_per_token_at_start) == (2 * 2 * 64 * 2, 3 * 2 * 64 * 2)
    # widths are 2/3 of factor × hidden × 2, rounded up to 256: 768 and 512
    attention = 2 * 512 * 512 + 2 * 128 * 512, 0, 512 * 512, 2 * 512 * 512 + 2 * 64 * 512
    mlp = 3 * 768 * 512, 3 * 512 * 512, 0, 512 * 512
    norms = 2 + 1 + 1 + 2 + 1
    assert total_parameters(model) == sum(attention) + sum(mlp) + norms * 512 + 2 * 1000 * 512


def test_layers_with_more_heads_of_their_own() -> None:
    config = config_of("Meta-Llama-3.1-8B", num_hidden_layers=2, num_key_value_heads_per_layer=[8, 4])
    assert cache_profile(spec(config)).bytes_per_token == (8 + 4) * 2 * 128 * 2


def test_an_unknown_model_type_is_read_by_its_keys_and_says_so() -> None:
    model = spec(config_of("Meta-Llama-3.1-8B", model_type="brand_new"))
    assert total_parameters(model) == MODELS["Meta-Llama-3.1-8B"]["parameters"]
    assert [(a.name, a.value) for a in model.assumptions] == [("dtype", "bf16"), ("architecture", "brand_new")]


def test_a_dtype_that_the_config_says_is_no_assumption() -> None:
    model = spec(config_of("Meta-Llama-3.1-8B", torch_dtype="float16"))
    assert (model.dtype, model.assumptions) == ("fp16", ())
    with pytest.raises(KvcalcError, match="not a dtype of weights"):
        spec(config_of("Meta-Llama-3.1-8B", torch_dtype="float7"))


def test_an_unknown_model_type_with_latent_keys() -> None:
    model = spec(config_of("DeepSeek-V3", model_type="brand_new"))
    assert cache_profile(model).bytes_per_token == 70_272


@pytest.mark.parametrize("model_type", ["bert", "switch_transformers", "unlimited_ocr"])
def test_an_architecture_that_is_not_counted_is_refused_with_the_reason(model_type: str) -> None:
    with pytest.raises(KvcalcError, match=f"does not count {model_type}: "):
        spec(config_of("Meta-Llama-3.1-8B", model_type=model_type))


def test_a_wrapper_without_a_decoder_is_refused() -> None:
    with pytest.raises(KvcalcError, match="says nothing of its text decoder"):
        spec({"model_type": "llava", "vision_config": {}})


# LLaVA-1.5's own config: an empty text_config means its decoder's class as declared, Llama with 32 layers of 4,096.
def test_an_empty_text_config_means_its_class() -> None:
    model = spec({"model_type": "llava", "text_config": {}})
    assert (model.layers, model.hidden) == (32, 4096)


def test_the_whole_configs_word_on_tying_comes_first() -> None:
    text = config_of("Meta-Llama-3.1-8B", tie_word_embeddings=True)
    assert spec({"model_type": "llava", "text_config": text, "tie_word_embeddings": False}).tied_embeddings is False
    assert spec({"model_type": "llava", "text_config": text}).tied_embeddings is True


def test_names_are_those_of_the_checkpoint() -> None:
    model = spec(config_of("Meta-Llama-3.1-8B"))
    group = model.groups[0]
    paths = {group.path(31, tensor) for tensor in group.tensors}
    assert {"model.layers.31.self_attn.q_proj", "model.layers.31.mlp.down_proj"} <= paths
    assert {tensor.module for tensor in model.tensors} == {"model.embed_tokens", "model.norm", "lm_head"}
