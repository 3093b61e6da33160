"""Widths of rotary tables, from what public configs say."""

import pytest

from kvcalc.catalog.config.families.rotary import rotary_width
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.model import Attention, LatentAttention, LayerGroup, Mixer


def group(mixer: Mixer) -> LayerGroup:
    return LayerGroup(layers=(0,), mixers=(mixer,))


HEADS_128 = group(Attention(query_heads=32, kv_heads=8, head_dim=128, v_head_dim=128))
HEADS_256 = group(Attention(query_heads=16, kv_heads=2, head_dim=256, v_head_dim=256))
LATENT = group(LatentAttention(query_heads=128, kv_lora_rank=512, rope_head_dim=64, nope_head_dim=128, v_head_dim=128))


@pytest.mark.parametrize(
    "config, layers, width",
    [
        ({"rope_theta": 500000.0}, HEADS_128, 128),  # Llama-3.1-8B: 131,072 x 128 x 2 B = 0.031 GiB in its log
        ({"rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}, HEADS_128, 128),
        ({"rope_theta": 1e7, "partial_rotary_factor": 0.25}, HEADS_256, 64),  # Qwen3-Next
        ({"rope_parameters": {"rope_theta": 1e7, "partial_rotary_factor": 0.25}}, HEADS_256, 64),
        ({"rotary_dim": 64}, HEADS_256, 64),  # GPT-J
        ({"rope_theta": 1e6, "rope_local_base_freq": 1e4}, HEADS_128, 256),  # Gemma 3: a table for each base
        ({"rope_parameters": {"full_attention": {}, "sliding_attention": {}}}, HEADS_128, 256),
        ({"qk_rope_head_dim": 64}, LATENT, 64),  # DeepSeek
        ({"n_positions": 1024}, HEADS_128, 0),  # GPT-2: learned positions
        ({"rope_theta": 1e4, "alibi": True}, HEADS_128, 0),
    ],
)
def test_width(config: dict[str, object], layers: LayerGroup, width: int) -> None:
    assert rotary_width(Keys(config), (layers,)) == width
