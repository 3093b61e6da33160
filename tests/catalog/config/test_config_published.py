"""Models whose code is in their own repository: published parameter counts (the model pages' safetensors totals)."""

from typing import Any

import pytest

from kvcalc.catalog.config.read import read_config
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import total_parameters
from kvcalc.specs.base import Source

# name, config, published parameters, of which buffers, cache bytes per token by the paper's shapes
CASES: list[tuple[str, dict[str, Any], int, int, int]] = [
    ("chatglm3-6b", {
        "model_type": "chatglm", "add_bias_linear": False, "add_qkv_bias": True, "ffn_hidden_size": 13696,
        "hidden_size": 4096, "kv_channels": 128, "multi_query_attention": True, "multi_query_group_num": 2,
        "num_attention_heads": 32, "num_layers": 28, "padded_vocab_size": 65024, "seq_length": 8192, "rmsnorm": True,
        "tie_word_embeddings": False,
    }, 6_243_584_000, 0, 28 * 2 * 2 * 128 * 2),
    ("falcon-7b", {
        "model_type": "RefinedWebModel", "alibi": False, "bias": False, "hidden_size": 4544, "multi_query": True,
        "n_head": 71, "n_layer": 32, "parallel_attn": True, "vocab_size": 65024,
    }, 6_921_720_704, 0, 32 * 2 * 64 * 2),
    ("falcon-40b", {
        "model_type": "RefinedWeb", "alibi": False, "bias": False, "hidden_size": 8192, "n_head": 128, "n_head_kv": 8,
        "n_layer": 60, "parallel_attn": True, "vocab_size": 65024,
    }, 41_303_293_952, 0, 60 * 2 * 8 * 64 * 2),
    ("MiniMax-Text-01", {
        "model_type": "minimax_text_01", "hidden_size": 6144, "num_hidden_layers": 80, "num_attention_heads": 64,
        "num_key_value_heads": 8, "head_dim": 128, "intermediate_size": 9216, "num_local_experts": 32,
        "num_experts_per_tok": 2, "shared_intermediate_size": 0, "vocab_size": 200064,
        "attn_type_list": [0, 0, 0, 0, 0, 0, 0, 1] * 10, "tie_word_embeddings": False, "sliding_window": None,
    }, 456_089_655_296, 0, 10 * 2 * 8 * 128 * 2),
    ("OpenELM-270M", {
        "model_type": "openelm", "model_dim": 1280, "num_transformer_layers": 16, "head_dim": 64,
        "num_query_heads": [12] * 5 + [16] * 7 + [20] * 4, "num_kv_heads": [3] * 5 + [4] * 7 + [5] * 4,
        "ffn_multipliers": [
            0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53, 3.77, 4.0,
        ],
        "ffn_dim_divisor": 256, "vocab_size": 32000, "normalize_qk_projections": True,
        "share_input_output_layers": True, "max_context_length": 2048, "qkv_multipliers": [0.5, 1.0],
    }, 271_527_168, 0, (3 * 5 + 4 * 7 + 5 * 4) * 2 * 64 * 2),
    ("Kimi-Linear-48B-A3B", {
        "model_type": "kimi_linear", "hidden_size": 2304, "num_hidden_layers": 27, "num_attention_heads": 32,
        "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
        "num_experts": 256, "num_experts_per_token": 8, "num_shared_experts": 1, "moe_intermediate_size": 1024,
        "intermediate_size": 9216, "first_k_dense_replace": 1, "moe_layer_freq": 1, "vocab_size": 163840,
        "tie_word_embeddings": False,
        "linear_attn_config": {
            "full_attn_layers": [4, 8, 12, 16, 20, 24, 27], "head_dim": 128, "num_heads": 32,
            "kda_layers": [layer for layer in range(1, 27) if layer % 4], "short_conv_kernel_size": 4,
        },
    }, 49_122_681_728, 26 * 256, 7 * 576 * 2),
    ("Ling-mini-2.0", {
        "model_type": "bailing_moe_v2", "hidden_size": 2048, "num_hidden_layers": 20, "num_attention_heads": 16,
        "num_key_value_heads": 4, "head_dim": 128, "intermediate_size": 5120, "moe_intermediate_size": 512,
        "num_experts": 256, "num_experts_per_tok": 8, "num_shared_experts": 1, "first_k_dense_replace": 1,
        "vocab_size": 157184, "use_qk_norm": True, "use_bias": False, "use_qkv_bias": False,
        "tie_word_embeddings": False, "moe_router_enable_expert_bias": True,
        "moe_shared_expert_intermediate_size": 512,
    }, 16_255_643_392, 19 * 256, 20 * 2 * 4 * 128 * 2),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "config", "published", "buffers", "per_token"), CASES, ids=[case[0] for case in CASES]
)
def test_parameters_and_cache(name: str, config: dict[str, Any], published: int, buffers: int, per_token: int) -> None:
    model = read_config({**config, "torch_dtype": "bfloat16"}, name, Source(what="test"))
    assert total_parameters(model) + buffers == published
    assert cache_profile(model).bytes_per_token == per_token
    assert model.assumptions == ()
