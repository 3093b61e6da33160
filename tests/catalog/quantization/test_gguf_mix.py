"""GGUF types without a file: sizes that were published, and llama.cpp's own rules."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvcalc.catalog.cards import card_names
from kvcalc.catalog.config.read import read_config
from kvcalc.catalog.models import load_model
from kvcalc.catalog.quantization.gguf_mix import mix, role_of
from kvcalc.catalog.quantization.gguf_recipe import (
    Matrix,
    Recipe,
    Shape,
    blocks,
    data,
    find_recipe,
    ggml_type,
    recipe,
)
from kvcalc.counting.weights import weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Source
from kvcalc.specs.model import ModelSpec

QWEN3 = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "head_dim": 128, "num_key_value_heads": 8,
         "vocab_size": 151936, "torch_dtype": "bfloat16"}  # fmt: skip
QWEN2 = {"architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "num_key_value_heads": 2, "vocab_size": 151936,
         "torch_dtype": "bfloat16", "tie_word_embeddings": False}  # fmt: skip


def shape(hidden: int, width: int, layers: int, heads: int, **more: Any) -> dict[str, Any]:
    return {"hidden_size": hidden, "intermediate_size": width, "num_hidden_layers": layers,
            "num_attention_heads": heads, **more}  # fmt: skip


# Models without a card here. The Qwen2.5 files that were published write their output matrix.
CONFIGS: dict[str, dict[str, Any]] = {
    "qwen3-0.6b": QWEN3 | shape(1024, 3072, 28, 16, tie_word_embeddings=True),
    "qwen3-1.7b": QWEN3 | shape(2048, 6144, 28, 16, tie_word_embeddings=True),
    "qwen3-4b": QWEN3 | shape(2560, 9728, 36, 32, tie_word_embeddings=True),
    "qwen3-14b": QWEN3 | shape(5120, 17408, 40, 40, tie_word_embeddings=False),
    "qwen2.5-1.5b": QWEN2 | shape(1536, 8960, 28, 12),
    "qwen2.5-3b": QWEN2 | shape(2048, 11008, 36, 16),
    "gemma-2-9b": shape(3584, 14336, 42, 16, architectures=["Gemma2ForCausalLM"], model_type="gemma2", head_dim=256,
                        num_key_value_heads=8, vocab_size=256000, sliding_window=4096, torch_dtype="bfloat16",
                        tie_word_embeddings=True),
    "phi-3-mini": shape(3072, 8192, 32, 32, architectures=["Phi3ForCausalLM"], model_type="phi3", vocab_size=32064,
                        num_key_value_heads=32, torch_dtype="bfloat16", tie_word_embeddings=False),
    "smollm2-1.7b": shape(2048, 8192, 24, 32, architectures=["LlamaForCausalLM"], model_type="llama",
                          num_key_value_heads=32, vocab_size=49152, torch_dtype="bfloat16", tie_word_embeddings=True),
    "falcon-7b": {"architectures": ["FalconForCausalLM"], "model_type": "falcon", "hidden_size": 4544,
                  "num_hidden_layers": 32, "num_attention_heads": 71, "multi_query": True, "parallel_attn": True,
                  "new_decoder_architecture": False, "bias": False, "alibi": False, "vocab_size": 65024,
                  "torch_dtype": "bfloat16"},
}  # fmt: skip

# Sizes of published files in bytes: (model, type, bytes). Hugging Face file sizes as applications pin them
# (webos-phoenix models.js, pocketpal-ai defaultModels.ts, Rllama cli.rb, LM Studio's catalog, gpt4all models3.json).
FILES = [
    ("qwen3-0.6b", "Q8_0", 639446688),
    ("qwen3-1.7b", "Q8_0", 1834426016),
    ("qwen3-4b", "Q4_K_M", 2497280256),
    ("qwen3-8b", "Q4_K_M", 5027783488),
    ("qwen3-14b", "Q4_K_M", 9001752960),
    ("qwen3-30b-a3b", "Q4_K_M", 18556685824),
    ("llama-3.2-1b", "Q2_K", 580873408),
    ("llama-3.2-1b", "Q4_K_M", 807694464),
    ("llama-3.2-1b", "Q8_0", 1321079200),
    ("llama-3.2-3b", "Q6_K", 2643853856),
    ("llama-3.2-3b", "Q4_K_M", 2019377696),
    ("gemma-2-2b", "Q6_K", 2151393120),
    ("gemma-2-9b", "Q4_K_M", 5761057728),
    ("phi-3-mini", "Q4_0", 2176181568),
    ("qwen2.5-1.5b", "Q8_0", 1894532128),
    ("qwen2.5-3b", "Q5_K_M", 2438740384),
    ("smollm2-1.7b", "Q8_0", 1820414944),
    ("llama-3.1-8b", "Q4_0", 4661724384),
    ("mistral-7b-v0.1", "Q4_0", 4108916384),
    ("llama-2-7b", "Q4_0", 3825824192),
    ("llama-2-13b", "Q4_0", 7365834624),
    ("falcon-7b", "Q4_0", 4210994112),
    ("gpt-oss-20b", "MXFP4_MOE", 12109565632),
]
# Bits per weight of Llama-3.1-8B in llama.cpp's tools/quantize/README.md: tensors alone, no tokenizer.
README = {
    "IQ1_S": 2.0042, "IQ1_M": 2.1460, "IQ2_XXS": 2.3824, "IQ2_XS": 2.5882, "IQ2_S": 2.7403, "IQ2_M": 2.9294,
    "IQ3_XXS": 3.2548, "IQ3_XS": 3.4977, "IQ3_S": 3.6606, "IQ3_M": 3.7628, "IQ4_XS": 4.4597, "IQ4_NL": 4.6818,
    "Q2_K_S": 2.9697, "Q2_K": 3.1593, "Q3_K_S": 3.6429, "Q3_K_L": 4.2979, "Q4_K_S": 4.6672, "Q4_K_M": 4.8944,
    "Q5_K_S": 5.5704, "Q5_K_M": 5.7036, "Q6_K": 6.5633, "Q8_0": 8.5008, "F16": 16.0005,
}  # fmt: skip
# File sizes that llama-bench runs report (localscore, llama.cpp's discussions), GB as printed there.
BENCHED = [
    ("deepseek-r1", "Q4_K_M", 403.727),
    ("llama-3.1-405b", "Q4_K_M", 242.666),
    ("gpt-oss-120b", "MXFP4_MOE", 63.372),
    ("glm-4.7-flash", "BF16", 59.904),
]
# Tables of bartowski's model pages, GB, rounded; the first was made with an importance matrix.
TABLES = {
    "llama-3.1-70b": {
        "Q8_0": 74.98, "Q6_K": 57.89, "Q5_K_L": 50.60, "Q5_K_M": 49.95, "Q5_K_S": 48.66, "Q4_K_L": 43.30,
        "Q4_K_M": 42.52, "Q4_K_S": 40.35, "i1-Q4_0": 40.12, "i1-IQ4_XS": 37.90, "Q3_K_XL": 38.06, "Q3_K_L": 37.14,
        "Q3_K_M": 34.27, "IQ3_M": 31.94, "Q3_K_S": 30.91,
    },
    "mixtral-8x22b": {
        "Q5_K_M": 99.96, "Q5_K_S": 96.97, "Q4_K_M": 85.58, "Q4_K_S": 80.47, "IQ4_NL": 80.47, "IQ4_XS": 76.35,
        "Q3_K_L": 72.57, "Q3_K_M": 67.78, "IQ3_M": 64.49, "IQ3_S": 61.49, "Q3_K_S": 61.49, "IQ3_XS": 58.22,
        "Q2_K": 52.10,
    },
    "qwen3-30b-a3b": {"BF16": 61.10, "Q8_0": 32.48, "Q6_K": 25.10, "Q5_K_M": 21.74, "Q5_K_S": 21.10},
}  # fmt: skip
PARAMETERS_8B = 8_030_261_312  # Llama-3.1-8B with rope_freqs, by which the README divides


def model_named(name: str) -> ModelSpec:
    return read_config(CONFIGS[name], name, Source(what="a test")) if name in CONFIGS else load_model(name)


def tokenizer(model: ModelSpec) -> int:
    return int(data()["tokenizer_bytes"].get(str(model.vocab), 0))


@pytest.mark.parametrize(("name", "kind", "published"), FILES)
def test_published_files(name: str, kind: str, published: int) -> None:
    model = model_named(name)
    assert weight_bytes(mix(model, recipe(kind))) + tokenizer(model) == pytest.approx(published, rel=5e-4)


@pytest.mark.parametrize("kind", README)
def test_bits_per_weight_of_llama_cpps_own_table(kind: str) -> None:
    have = weight_bytes(mix(load_model("llama-3.1-8b"), recipe(kind))) * 8 / PARAMETERS_8B
    assert have == pytest.approx(README[kind], rel=5e-5)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, sizes in TABLES.items() for kind in sizes])
def test_published_tables(name: str, kind: str) -> None:
    model = load_model(name)
    have = weight_bytes(mix(model, recipe(kind))) + tokenizer(model)
    assert have / 1e9 == pytest.approx(TABLES[name][kind], rel=2e-3)


@pytest.mark.parametrize(("name", "kind", "gigabytes"), BENCHED)
def test_sizes_that_benchmarks_print(name: str, kind: str, gigabytes: float) -> None:
    """Latent attention, experts beside shared ones, and the largest dense model."""
    assert weight_bytes(mix(load_model(name), recipe(kind))) / 1e9 == pytest.approx(gigabytes, rel=2.5e-3)


def test_a_layer_of_qwen3_5_with_its_linear_attention() -> None:
    """Q6_K adds 27,844,608 bytes over Q4_K in attn_v, attn_qkv and ffn_down of the 0.8B (unsloth's stock file)."""
    config = {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 1024, "head_dim": 256,
        "intermediate_size": 3584, "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2,
        "vocab_size": 248320, "tie_word_embeddings": True, "full_attention_interval": 4, "linear_num_key_heads": 16,
        "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4, "attn_output_gate": True, "torch_dtype": "bfloat16",
    }  # fmt: skip
    mixed = mix(read_config(config, "qwen3.5-0.8b", Source(what="a test")), recipe("q4_k_m"))
    widened = sum(
        group.count * t.parameters for group in mixed.groups for t in group.tensors
        if t.format.name == "q6_k" and role_of(t) in ("attn_v", "ffn_down")
    )  # fmt: skip
    assert widened * (6.5625 - 4.5) / 8 == 27_844_608


def test_latent_attention_is_cut_as_the_converter_does() -> None:
    """The keys' half of kv_b has rows of 128: no block of 256 fits, so Q4_K becomes Q5_0 there."""
    mixed = mix(load_model("deepseek-v3"), recipe("q4_k_m"))
    tensors = {t.module.rpartition(".")[2]: t for t in mixed.groups[0].tensors}
    assert "kv_b_proj" not in tensors
    assert (tensors["k_b_proj"].shape, tensors["k_b_proj"].format.name) == ((128 * 512, 128), "q5_0")
    assert (tensors["v_b_proj"].shape, tensors["v_b_proj"].format.name) == ((128 * 128, 512), "q4_k")
    assert mixed.mtp == mixed.towers == ()
    assert {"quantization", "weights"} <= {one.name for one in mixed.assumptions}


def test_what_a_checkpoint_has_in_ggmls_own_format_is_copied() -> None:
    mixed = mix(load_model("gpt-oss-20b"), recipe("q4_k_m"))
    experts = {
        t.format.name for g in mixed.groups for t in g.tensors if t.category == "experts" and "bias" not in t.name
    }
    assert experts == {"mxfp4"}
    # attn_q has rows of 2,880, which blocks of 256 do not divide.
    assert {t.format.name for t in mixed.groups[0].tensors if t.name == "self_attn.q_proj.weight"} == {"q5_0"}


@pytest.mark.parametrize(
    ("text", "name", "importance"),
    [
        ("q4_k_m", "Q4_K_M", False), ("Q4-K-M", "Q4_K_M", False), ("q4", "Q4_K_M", False), ("4bit", "Q4_K_M", False),
        ("Q4_K - Medium", "Q4_K_M", False), ("mxfp4", "MXFP4_MOE", False), ("fp16", "F16", False),
        ("int8", "Q8_0", False), ("i1-iq4_xs", "IQ4_XS", True), ("iq2_m", "IQ2_M", True), ("q6_k_l", "Q6_K_L", False),
    ],
)  # fmt: skip
def test_spellings(text: str, name: str, importance: bool) -> None:
    made = recipe(text)
    assert (made.name, made.importance) == (name, importance)


@pytest.mark.parametrize("text", ["fp8", "awq", "banana", "", "q4_k_x"])
def test_what_is_no_type(text: str) -> None:
    assert find_recipe(text) is None
    with pytest.raises(KvcalcError, match="unknown GGUF type"):
        recipe(text)


def test_a_mix_without_a_public_recipe_is_not_guessed() -> None:
    with pytest.raises(KvcalcError, match="no public recipe"):
        recipe("UD-Q4_K_XL")


MATRICES = st.builds(
    Matrix,
    role=st.sampled_from(
        ["token_embd", "output", "attn_v", "attn_k", "attn_q", "attn_output", "ffn_up", "ffn_down", "other"]
    ),
    row=st.integers(1, 40_000),
    number=st.integers(0, 99),
    of=st.just(100),
    expert=st.booleans(),
)  # fmt: skip
SHAPES = st.builds(
    Shape,
    layers=st.sampled_from([32, 80]),
    query_heads_per_kv_head=st.integers(1, 16),
    experts=st.sampled_from([1, 8, 128]),
    architecture=st.sampled_from(["llama", "falcon"]),
)
RECIPES = st.builds(lambda name, importance: recipe(f"i1-{name}" if importance else name),
                    st.sampled_from(sorted(data()["types"])), st.booleans())  # fmt: skip


@given(RECIPES, MATRICES, SHAPES)
def test_every_tensor_gets_a_type_whose_blocks_fill_its_rows(made: Recipe, matrix: Matrix, model: Shape) -> None:
    assert matrix.row % blocks()[ggml_type(made, matrix, model)][0] == 0


@settings(max_examples=25)
@given(st.sampled_from(card_names()), st.sampled_from(["Q4_K_M", "IQ2_M", "Q8_0", "MXFP4_MOE"]))
def test_every_card_can_be_mixed(name: str, kind: str) -> None:
    """No tensor is lost but those that files leave out, and none grows beyond its stored 32 bits."""
    model = load_model(name)
    mixed = mix(model, recipe(kind))

    def elements(spec: ModelSpec) -> int:
        layers = sum(group.count * t.parameters for group in spec.groups for t in group.tensors)
        return layers + sum(t.parameters for t in spec.tensors if t.category != "head")

    latent = any(t.module.endswith("kv_b_proj") for group in model.groups for t in group.tensors)
    assert latent or elements(mixed) == elements(model)
    assert 0 < weight_bytes(mixed) < 4 * (elements(mixed) + model.hidden * model.vocab)
    assert mixed.layers == model.layers
