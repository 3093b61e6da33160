"""Towers against the parameters of the real model classes (data/towers.json), and what is done about unknown ones."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.config.towers import Towers, read_towers
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Tensor

DATA = json.loads((Path(__file__).parents[2] / "data" / "towers.json").read_text(encoding="utf-8"))
CLASSES = DATA["classes"]  # as each class declares itself, and once more with most sizes changed
QWEN = DATA["published"]["Qwen/Qwen2.5-VL-7B-Instruct"]["config"]


def tensors(found: Towers) -> list[Tensor]:
    return [tensor for tower in found.towers for tensor in tower.tensors]


def parameters(found: Towers) -> int:
    return sum(tensor.parameters for tensor in tensors(found) if not tensor.buffer)


@pytest.mark.parametrize("name", DATA["published"])
def test_published_models(name: str) -> None:
    case = DATA["published"][name]
    found = read_towers(case["config"])
    assert parameters(found) == case["parameters"]
    assert not found.assumptions


@pytest.mark.parametrize("name", DATA["hub"])
def test_families_whose_code_is_in_their_repositories(name: str) -> None:
    assert parameters(read_towers(DATA["hub"][name]["config"])) == DATA["hub"][name]["parameters"]


@pytest.mark.parametrize("index", range(len(CLASSES)), ids=lambda index: f"{CLASSES[index]['config']['model_type']}")
def test_classes_of_the_library(index: int) -> None:
    found = read_towers(CLASSES[index]["config"])
    assert parameters(found) == CLASSES[index]["parameters"]


@pytest.mark.parametrize("name", DATA["published"])
def test_categories_follow_the_kind_of_tower(name: str) -> None:
    for tower in read_towers(DATA["published"][name]["config"]).towers:
        assert {tensor.category for tensor in tower.tensors} == {tower.kind}


def test_buffers_are_no_parameters() -> None:
    """Gemma-4-26B's file holds 4,608 bytes of its tower's buffers: a mean and a scale of 1,152 elements in bf16."""
    found = read_towers(DATA["published"]["google/gemma-4-26B-A4B"]["config"])
    assert sum(tensor.parameters for tensor in tensors(found) if tensor.buffer) * 2 == 4608


def test_layers_stand_for_each_other() -> None:
    blocks = [tensor for tensor in tensors(read_towers(QWEN)) if ".blocks." in tensor.name]
    assert {tensor.copies for tensor in blocks} == {QWEN["vision_config"]["depth"]}
    assert all(".blocks.0." in tensor.name for tensor in blocks), "named by the first"


def test_no_tower_where_the_config_has_none() -> None:
    assert read_towers({"model_type": "gemma4", "vision_config": None, "audio_config": None}) == Towers()
    assert read_towers({"model_type": "llama"}) == Towers()


def test_an_unknown_model_with_a_known_tower_leaves_the_joint_out_and_says_so() -> None:
    vision = {"model_type": "siglip_vision_model", "vision_use_head": False}
    found = read_towers({"model_type": "newcomer", "vision_config": vision})
    assert parameters(found) == 85_797_120  # SigLIP base, patch 16, as counted inside UltraVBert of transformers 5.24.0
    assert [assumption.name for assumption in found.assumptions] == ["vision projector"]


def test_an_unknown_tower_is_an_assumption() -> None:
    found = read_towers({"model_type": "llava", "vision_config": {"model_type": "holographic"}})
    assert found.towers == ()
    assert [assumption.value for assumption in found.assumptions] == ["holographic"]


def test_what_engines_do_not_load_is_said() -> None:
    found = read_towers({"model_type": "qwen2_5_omni", "thinker_config": {"text_config": {"hidden_size": 3584}}})
    assert {tower.kind for tower in found.towers} == {"vision", "audio"}
    assert "talker" in found.assumptions[0].why


@pytest.mark.parametrize("value", [-1, 0, "many", 10**30, float("nan"), [], {}, None, True, 2.5])
def test_senseless_sizes_are_refused(value: object) -> None:
    config = {**QWEN, "vision_config": {**QWEN["vision_config"], "hidden_size": value}}
    with pytest.raises(KvcalcError, match="hidden_size"):
        read_towers(config)


@given(
    st.dictionaries(
        st.sampled_from(sorted({*QWEN["vision_config"], "in_channels", "patch_size", "spatial_merge_size"})),
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.integers()),
    )
)
def test_any_values_give_towers_or_an_error_of_ours(changes: dict[str, Any]) -> None:
    try:
        found = read_towers({**QWEN, "vision_config": {**QWEN["vision_config"], **changes}})
    except KvcalcError:
        return
    assert parameters(found) > 0
