"""From what a user types to a model, and what happens with everything that is none."""

import json
import os
import time
from pathlib import Path

import pytest

from kvcalc.catalog.cards import card_names, find_card
from kvcalc.catalog.models import load_model
from kvcalc.counting.params import total_parameters
from kvcalc.counting.weights import mtp_weight_bytes, weight_bytes
from kvcalc.errors import KvcalcError
from tests.catalog.hub_server import safetensors_file

CONFIG = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "max_position_embeddings": 512,
    "torch_dtype": "bfloat16", "tie_word_embeddings": True,
}  # fmt: skip
PARAMETERS = 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 128 * 64 + 2 * 64) + 100 * 64 + 64


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "my model, v1 (é)"
    place.mkdir()
    (place / "config.json").write_text(json.dumps(CONFIG))
    return place


def refused(name: str) -> KvcalcError:
    start = time.monotonic()
    with pytest.raises(KvcalcError) as caught:
        load_model(name)
    assert time.monotonic() - start < 60  # it hangs, were it longer
    assert len(caught.value.message) < 500
    return caught.value


def test_card_folder_and_file(folder: Path) -> None:
    assert load_model("llama-3-8b").layers == 32
    assert load_model(str(folder)).name == folder.name
    assert load_model(str(folder / "config.json")).hidden == 64


def test_an_address_on_the_hub() -> None:
    assert load_model("https://huggingface.co/meta-llama/Meta-Llama-3-8B").name == "llama-3-8b"
    assert load_model("https://huggingface.co/meta-llama/Meta-Llama-3-8B/tree/main").name == "llama-3-8b"


def test_relative_paths_and_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder.parent)
    assert load_model(folder.name).hidden == 64
    assert load_model(f"./{folder.name}/config.json").hidden == 64
    monkeypatch.setenv("HOME", str(folder.parent))
    assert load_model(f"~/{folder.name}").hidden == 64


def test_a_card_wins_over_a_folder_of_its_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.rename(folder.with_name("llama-3-8b"))
    monkeypatch.chdir(folder.parent)
    assert load_model("llama-3-8b").layers == 32
    assert load_model("./llama-3-8b").layers == 2


def test_local_weights_give_the_exact_size(folder: Path) -> None:
    size = 2 * PARAMETERS
    (folder / "model.safetensors").write_bytes(safetensors_file({"w": ("BF16", [PARAMETERS], size)}, body=False))
    model = load_model(str(folder))
    assert (weight_bytes(model), model.file_parameters) == (size, PARAMETERS)


def test_a_half_downloaded_checkpoint_falls_back_to_its_index(folder: Path) -> None:
    index = {"metadata": {"total_size": 2 * PARAMETERS}, "weight_map": {"w": "gone.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load_model(str(folder)).weight_file_bytes == 2 * PARAMETERS


def test_a_users_card(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    rows = "\n".join(f"{key} = {json.dumps(value)}" for key, value in CONFIG.items())
    path.write_text(f"title = 'Not yet trained'\n[config]\n{rows}\n")
    model = load_model(str(path))
    assert (model.name, model.hidden) == ("mine", 64)


SPEC = """
[spec]
hidden = 1024
vocab = 1
[[spec.groups]]
layers = 12
mixers = [{ kind = "attention", query_heads = 16, kv_heads = 16, head_dim = 64, v_head_dim = 64 }]
[[spec.groups.tensors]]
name = "all.weight"
shape = [12288, 1024]
category = "other"
"""


def test_a_users_card_for_what_no_config_describes(tmp_path: Path) -> None:
    path = tmp_path / "encoder.toml"
    path.write_text(SPEC)
    model = load_model(str(path))
    assert (model.layers, weight_bytes(model)) == (12, 12 * 12288 * 1024 * 2)
    path.write_text(SPEC.replace("query_heads", "query_headz"))
    assert "query_head" in refused(str(path)).message


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("llama-3-8bb", "did you mean llama-3-8b"),
        ("lama-3-70b", "llama-3-70b"),
        ("", "give a card"),
        ("x" * 5000, "give a card"),
        ("x" * 300, "path"),
        ("~nobody-at-all/model", "path"),
        ("a\x00b", "give a card"),
        ("a\nb", "give a card"),
        ("./nowhere", "path"),
        ("/nowhere/config.json", "path"),
        ("nowhere.toml", "path"),
        ("a/b/c/d/e", "path"),
        ("owner/name/with spaces", "owner/name"),
        ("owner/../../../etc", "path"),
        ("$(id)", "owner/name"),
        ("owner/na--me", "owner/name"),
        ("owner/..", "owner/name"),
        ("-/-", "owner/name"),
        ("https://example.org/org/name", "path"),
    ],
)
def test_names_that_miss(name: str, words: str) -> None:
    error = refused(name)
    assert words in error.hint


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "3", '"x"', "{}", "[" * 100_000, '{"a":' * 100_000, '{"hidden_size": NaN}',
        '{"model_type": "llama", "hidden_size": Infinity, "vocab_size": 10}', '{"hidden_size": 1e400}',
        json.dumps(CONFIG | {"hidden_size": "64"}), json.dumps(CONFIG | {"num_hidden_layers": -1}),
        json.dumps(CONFIG | {"num_hidden_layers": 10**12}), json.dumps(CONFIG | {"vocab_size": 2**62}),
        json.dumps(CONFIG | {"num_hidden_layers": {}}), json.dumps(CONFIG | {"torch_dtype": "../../x"}),
        json.dumps(CONFIG | {"model_type": ["llama"]}), "{'a': 1}", "\ufeff{", '{"a": 1} trailing',
        '{"hidden_size": ' + "9" * 5000 + "}",
    ],
)  # fmt: skip
def test_configs_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    refused(str(path))


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_bytes(os.urandom(1000))
    refused(str(path))


def test_a_file_of_100_megabytes(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    with path.open("wb") as file:
        file.truncate(100 * 2**20)
    assert "too large" in refused(str(path)).message


def test_folders_without_a_config(tmp_path: Path) -> None:
    assert "no config.json" in refused(str(tmp_path)).message
    (tmp_path / "config.json").mkdir()
    refused(str(tmp_path))


def test_what_is_no_file(tmp_path: Path) -> None:
    pipe = tmp_path / "config.json"
    os.mkfifo(pipe)
    refused(str(pipe))
    refused("/dev/zero")


def test_a_link_that_goes_nowhere(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "gone")
    refused(str(tmp_path))
    refused(str(tmp_path / "config.json"))


# Counts by other programs stand in the cards, with their source; kvcalc's own must be the same.
@pytest.mark.parametrize("name", card_names())
def test_published_counts(name: str) -> None:
    card, model = find_card(name), load_model(name)
    assert card is not None
    counted = {
        "parameters": total_parameters(model),
        "weight_bytes": weight_bytes(model),
        "weight_bytes_without_mtp": weight_bytes(model) - mtp_weight_bytes(model),
    }
    published = {key: count.value for key, count in card.published.items()}
    assert {key: counted[key] for key in published} == published
