"""Cards: found without parsing all of them, complete, and honest about nulls."""

from pathlib import Path

import pytest

from kvcalc.catalog.cards import card_names, find_card, read_card
from kvcalc.catalog.files.toml import data_dir
from kvcalc.errors import KvcalcError


@pytest.mark.parametrize("name", card_names())
def test_every_card_reads_and_names_its_source(name: str) -> None:
    card = read_card(data_dir("model_cards") / f"{name}.toml")
    assert card.name == name == name.lower()
    assert card.source.url, "a card says where its config was read"
    assert all(published.source for published in card.published.values())


@pytest.mark.parametrize(
    "name", ["llama-3-8b", "Llama-3-8B", "meta-llama/Meta-Llama-3-8B", "meta-llama/meta-llama-3-8b-instruct"]
)
def test_a_card_is_found_by_name_hub_id_and_alias(name: str) -> None:
    card = find_card(name)
    assert card is not None
    assert card.name == "llama-3-8b"


def test_one_card_is_parsed_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Path] = []
    from kvcalc.catalog import cards

    monkeypatch.setattr(cards, "read_toml", lambda path, what: parsed.append(path) or {"config": {}})
    find_card("qwen3-8b")
    assert [path.stem for path in parsed] == ["qwen3-8b"]


def test_null_is_not_absent(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('explicit_null = ["a", "text.b"]\n[config]\nmodel_type = "x"\n[config.text]\nc = 1\n')
    assert read_card(path).config == {"model_type": "x", "a": None, "text": {"c": 1, "b": None}}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[config\n",
        'name = "x"\nsurprise = 1\n[config]\n',
        "[config]\n[spec]\n",
        "explicit_null = ['a.b']\n[config]\n",
    ],
)
def test_a_bad_card_is_one_clear_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(KvcalcError, match="model card"):
        read_card(path)
