"""Which models the executor runs, and the reason where it does not."""

import pytest
from executor.models import model_of

from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.executor.shape import shape_of


def test_the_shape_of_a_card() -> None:
    # config.json of meta-llama/Meta-Llama-3-8B
    shape = shape_of(load_model("llama-3-8b"))
    assert (shape.hidden, shape.vocab, shape.query_heads, shape.kv_heads, shape.head_dim, shape.width) == (
        4096, 128256, 32, 8, 128, 14336,
    )  # fmt: skip
    assert (shape.layers, shape.group, shape.tied, shape.windows[0]) == (32, 4, False, None)


@pytest.mark.parametrize("heads, kv_heads, group", [(4, 4, 1), (4, 2, 2), (4, 1, 4)])
def test_mha_gqa_and_mqa(heads: int, kv_heads: int, group: int) -> None:
    assert shape_of(model_of(num_attention_heads=heads, num_key_value_heads=kv_heads)).group == group


def test_biases_norms_and_windows_are_read_from_the_spec() -> None:
    qwen2 = shape_of(model_of(model_type="qwen2"))
    assert (qwen2.qkv_bias, qwen2.o_bias, qwen2.qk_norm) == (True, False, False)
    assert shape_of(model_of(model_type="qwen3", head_dim=32)).qk_norm
    assert shape_of(model_of(model_type="mistral", sliding_window=64)).windows == (64, 64, 64)
    llama = shape_of(model_of(attention_bias=True, mlp_bias=True, tie_word_embeddings=True))
    assert (llama.qkv_bias, llama.o_bias, llama.mlp_bias, llama.tied) == (True, True, True, True)


@pytest.mark.parametrize(
    "name, what",
    [
        ("deepseek-v3", "latent"),
        ("gpt-oss-120b", "self_attn|experts"),
        ("mixtral-8x7b", "experts"),
        ("gemma-3-27b", "layernorm|vision"),
        ("falcon-mamba-7b", "recurrent"),
    ],
)
def test_other_models_are_refused_with_the_part_that_stands_in_the_way(name: str, what: str) -> None:
    with pytest.raises(KvcalcError, match=f"Llama-shaped decoders; .* has .*({what})"):
        shape_of(load_model(name))


def test_quantized_weights_are_refused() -> None:
    scheme = {"quant_method": "fp8", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
    with pytest.raises(KvcalcError, match="quantized"):
        shape_of(model_of(quantization_config=scheme))
