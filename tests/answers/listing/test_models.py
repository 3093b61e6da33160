"""`kvcalc models`: counts that others published, sizes, and cards made from configs."""

import json
from datetime import date
from pathlib import Path

import pytest

from kvcalc.answers.listing.card import new_card
from kvcalc.answers.listing.models import list_models, show_model
from kvcalc.catalog.cards import card_names
from kvcalc.catalog.headers.safetensors import Stored
from kvcalc.catalog.models import load_model, with_file
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace


def test_gpt_oss_120b() -> None:
    """Parameters of OpenAI's model card (116.83 B, 5.13 B active without the embedding); 36 layers of 8 heads of 64."""
    result = show_model(load_model("gpt-oss-120b")).result
    assert result.parameters == sum(result.by_category.values()) == 116_829_156_672
    assert result.active_parameters - result.by_category["embedding"] == pytest.approx(5.13e9, rel=0.001)
    assert result.weight_bytes == sum(share.bytes for share in result.formats) == 65_248_815_744
    assert (result.kv_bytes_per_token, result.max_context) == (18 * 2 * 8 * 64 * 2, 131_072)
    assert result.weight_bytes_from == "counted from the config"


def test_published_counts_stand_beside_kvcalcs() -> None:
    result = show_model(load_model("llama-3-8b")).result
    assert [(c.name, c.published, c.counted) for c in result.published] == [
        ("parameters", 8_030_261_248, 8_030_261_248)
    ]


def test_the_working_of_a_plain_cache() -> None:
    figure, *_ = show_model(load_model("llama-3-8b")).figures
    assert (figure.value, figure.substituted) == (131_072, "2 * 32 * 8 * 128 * 2")


def test_a_file_that_the_config_does_not_explain_is_a_warning() -> None:
    model = load_model("llama-3-8b")
    assert show_model(with_file(model, (Stored(16_060_522_496), "the index"))).warnings == ()
    assert "20,000,000,000" in show_model(with_file(model, (Stored(20_000_000_000), "the index"))).warnings[0]


def test_every_card_is_listed() -> None:
    assert [row.name for row in list_models().result.models] == card_names()


CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "bos_token_id": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "head_dim": None, "num_experts_per_token": 2, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "x": None},
}  # fmt: skip


def test_a_card_from_a_config_gives_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "Tiny_Model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(CONFIG))
    card = new_card(str(folder), "https://example.org/config.json", today=date(2026, 1, 2))
    assert card.name == "tiny-model"
    assert "bos_token_id" not in card.text
    path = tmp_path / f"{card.name}.toml"
    path.write_text(card.text)
    made, read = load_model(str(path)), load_model(str(folder))
    assert replace(made, name=read.name, sources=read.sources) == read
    assert (made.sources[0].url, made.sources[0].date) == ("https://example.org/config.json", "2026-01-02")


def test_a_card_needs_a_source_and_a_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    with pytest.raises(KvcalcError, match="source"):
        new_card(str(tmp_path / "config.json"))
    with pytest.raises(KvcalcError, match="no config"):
        new_card(str(tmp_path / "nothing" / "here"), "https://example.org")
    with pytest.raises(KvcalcError, match="not a Hub id"):
        new_card("/nowhere", "https://example.org")
