"""Which layer is what, by each of the ways in which configs say it (the config classes of transformers 5.24)."""

from typing import Any

import pytest

from kvcalc.catalog.config.families.kinds import read_kinds
from kvcalc.catalog.config.families.table import traits_of
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

LETTERS = {
    "f": "full", "s": "sliding", "c": "chunked", "r": "recurrent", "e": "moe", "m": "mlp", "i": "indexed",
    "h": "hybrid", "x": "cross",
}  # fmt: skip


def kinds(model_type: str, count: int, **config: Any) -> str:
    found = read_kinds(Keys(config), traits_of(model_type), count)
    return "".join(next((letter for letter, name in LETTERS.items() if name == kind), kind) for kind in found)


@pytest.mark.parametrize(
    ("model_type", "config", "want"),
    [
        ("llama", {}, "ffff"),
        ("mistral", {"sliding_window": 4096}, "ssss"),
        ("mistral", {"sliding_window": None}, "ffff"),
        ("gemma2", {"sliding_window": 4096}, "sfsf"),
        ("gemma3_text", {"sliding_window": 1024}, "sssssfss"),
        ("gemma3_text", {"sliding_window": 1024, "sliding_window_pattern": 2}, "sfsf"),
        ("gemma4_text", {"sliding_window": 1024}, "sssssfsf"),
        ("cohere2", {"sliding_window": 4096}, "sssfsssf"),
        ("cwm", {"sliding_window": 8192}, "fsssfsss"),
        ("olmo3", {"sliding_window": 4096}, "sssfsssf"),
        ("gpt_oss", {"sliding_window": 128}, "sfsf"),
        ("exaone4", {"sliding_window": 4096, "sliding_window_pattern": "LLLG"}, "sssfsf"),
        ("exaone4", {"sliding_window": None, "sliding_window_pattern": None}, "ffff"),
        ("llama4_text", {"attention_chunk_size": 8192}, "cccfcccf"),
        ("llama4_text", {"attention_chunk_size": None}, "ffff"),
        ("qwen2", {"sliding_window": 4096, "use_sliding_window": False, "max_window_layers": 2}, "ffff"),
        ("qwen2", {"sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 2}, "ffss"),
        ("qwen3_next", {"full_attention_interval": 4}, "rrrfrrrf"),
        ("jamba", {"attn_layer_period": 8, "attn_layer_offset": 4}, "rrrrfrrr"),
        ("bamba", {"attn_layer_indices": [1, 3]}, "rfrf"),
        ("lfm2", {"full_attn_idxs": [2]}, "rrfr"),
        ("minimax", {"attn_type_list": [0, 0, 1]}, "rrf"),
        ("bailing_moe_linear", {"layer_group_size": 5}, "rrrrfrrrrf"),
        ("kimi_linear", {"linear_attn_config": {"kda_layers": [1, 2, 3]}}, "rrrf"),  # counted from one
        ("recurrent_gemma", {"block_types": ["recurrent", "recurrent", "attention"]}, "rrsrrs"),
        ("nemotron_h", {"hybrid_override_pattern": "M-M*E|"}, "rmrfe"),
        ("nemotron_h", {"layers_block_type": ["mamba", "moe", "attention"]}, "ref"),
        ("mimo_v2_flash", {"hybrid_layer_pattern": [0, 1, 1, 0]}, "fssf"),
        ("minimax_m3_vl_text", {"sparse_attention_freq": [0, 1, 1]}, "fii"),
        ("mllama_text_model", {"cross_attention_layers": [1]}, "fxf"),
        ("gpt_neo", {"attention_types": [[["global", "local"], 2]], "window_size": 256}, "fsfs"),
        ("zamba", {"attn_layer_period": 6, "attn_layer_offset": 4}, "rrhrrrrhrrrrrh"),
        ("unknown_to_all", {"sliding_window": 512}, "ssss"),
        ("unknown_to_all", {"sliding_window": 512, "use_sliding_window": False}, "ffff"),
    ],
)
def test_each_way_of_saying_it(model_type: str, config: dict[str, Any], want: str) -> None:
    assert kinds(model_type, len(want), **config) == want


def test_a_list_decides_over_a_pattern_and_may_be_longer() -> None:
    listed = ["full_attention", "sliding_attention", "full_attention", "sliding_attention"]
    assert kinds("gemma2", 3, layer_types=listed, sliding_window=4096) == "fsf"


def test_a_short_list_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="layer_types has 1 entries for 2 layers"):
        kinds("llama", 2, layer_types=["full_attention"])


def test_an_unknown_kind_names_its_key_and_says_how_to_proceed() -> None:
    with pytest.raises(KvcalcError, match="layer_types names a kind of layer that kvcalc does not know") as error:
        kinds("llama", 1, layer_types=["quantum_attention"])
    assert "TOML card" in error.value.hint
    with pytest.raises(KvcalcError, match="hybrid_override_pattern has a letter"):
        kinds("nemotron_h", 2, hybrid_override_pattern="MQ")


def test_deepseek_v4_compression_by_layer() -> None:
    found = read_kinds(Keys({"compress_ratios": [0, 4, 128, 0]}), traits_of("deepseek_v4"), 3)
    assert found == ["compressed_window", "compressed_4", "compressed_128"]
