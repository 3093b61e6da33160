"""Keys that kvcalc does not know: said with the answer, never passed over, an error where asked for."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from unknown_keys import REPORTED

from kvcalc.catalog.cards import card_names, find_card
from kvcalc.catalog.models import load_card, without_doubts
from kvcalc.counting.params import total_parameters
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.model import ModelSpec
from tests.catalog.real_models import config_of, spec

DENSE = "Meta-Llama-3.1-8B"
MODELS = (DENSE, "DeepSeek-V3", "Qwen3.5-35B-A3B", "Gemma-3-27B", "Mixtral-8x7B-v0.1", "Falcon-H1-0.5B", "Qwen2.5-7B")
# Names that strangers' reports showed passed unread or refused, and others, with values that say something.
NAMES = REPORTED | {
    "kv_compression_window": 7, "hybrid_state_size": 7, "num_memory_heads": 7, "latent_cache_dim": 7,
    "bottleneck_rank": 7, "per_layer_width": 7, "adapter_size": 7, "n_streams_of_something": 7, "kv_lora_rank": 512,
}  # fmt: skip


def bare(model: ModelSpec) -> ModelSpec:
    return replace(model, assumptions=(), doubts=())


def known_models() -> list[str]:
    from tests.catalog.real_models import MODELS as REAL

    return [name for name in MODELS if name in REAL]


@pytest.mark.parametrize("key", NAMES)
@pytest.mark.parametrize("name", known_models())
def test_a_key_changes_the_answer_or_is_named_in_it(name: str, key: str) -> None:
    config = deepcopy(config_of(name))
    place = config.get("text_config") or config
    if key in place:
        return
    plain = spec(config)
    place[key] = NAMES[key]
    model = spec(config)
    named = any(key in assumption.name for assumption in model.assumptions)
    same_as_said = key == "use_mla" and any(m.kind == "latent" for g in model.groups for m in g.mixers)
    assert named or bare(model) != bare(plain) or same_as_said


@pytest.mark.parametrize("key", ["kv_compression_window", "hybrid_state_size", "bottleneck_rank", "per_layer_width"])
def test_an_unknown_key_is_a_doubt_and_an_error_where_asked_for(key: str) -> None:
    model = spec(config_of(DENSE, **{key: 7}))
    assert [doubt.name for doubt in model.doubts] == [key]
    assert set(model.doubts) <= set(model.assumptions)
    assert key in model.warnings[0]
    with pytest.raises(KvcalcError, match=key) as error:
        without_doubts(model)
    assert "TOML card" in error.value.hint
    assert spec(config_of(DENSE, **{key: None})).doubts == ()  # off: it says nothing


def test_keys_that_change_nothing_pass() -> None:
    said = {"use_cache": True, "rope_theta": 5e5, "cache_implementation": "static", "router_aux_loss_coef": 0.1}
    model = spec(config_of(DENSE, **said))
    assert model.assumptions == spec(config_of(DENSE)).assumptions


def test_a_key_of_a_part_that_the_model_has_not_is_listed_without_a_warning() -> None:
    model = spec(config_of(DENSE, decoder_sparse_step=2))
    assert "decoder_sparse_step" in [assumption.name for assumption in model.assumptions]
    assert model.doubts == ()


@pytest.mark.parametrize("said", [{"n_head": 8}, {"n_kv_heads": 4}, {"n_layer": 16}, {"n_embd": 1024}])
def test_two_names_of_one_quantity_have_one_value(said: dict[str, int]) -> None:
    with pytest.raises(KvcalcError, match="they mean the same"):
        spec(config_of(DENSE, **said))


def test_the_same_value_under_two_names_is_well() -> None:
    assert spec(config_of(DENSE, n_head=32)).doubts == ()


def test_more_kinds_than_layers_are_told() -> None:
    model = spec(config_of(DENSE, layer_types=["full_attention"] * 40))
    assert "40 entries for 32 layers" in model.warnings[0]


@pytest.mark.parametrize("name", card_names())
def test_no_card_has_a_key_that_is_not_understood(name: str) -> None:
    card = find_card(name)
    assert card is not None
    assert load_card(card).doubts == ()


def test_layers_with_a_window_by_their_indices() -> None:
    model = spec(config_of(DENSE, swa_layers=[0, 1, 2], sliding_window=1024))
    assert {m.window: g.count for g in model.groups for m in g.mixers if m.kind == "attention"} == {1024: 3, None: 29}


def test_the_only_nested_config_with_a_vocabulary_is_the_decoder() -> None:
    inner = config_of(DENSE)
    model = spec({"model_type": "newcomer_vl", "eyes_config": {"hidden_size": 64}, "mouth_config": inner})
    assert total_parameters(model) == total_parameters(spec(inner))
    assert "mouth_config" in [doubt.name for doubt in model.doubts]


def test_a_period_in_a_family_that_is_not_known() -> None:
    config = config_of(DENSE, model_type="newcomer", sliding_window_pattern=4, sliding_window=512)
    windows = {m.window: g.count for g in spec(config).groups for m in g.mixers if m.kind == "attention"}
    assert windows == {512: 24, None: 8}


@pytest.mark.parametrize("name", [DENSE, "DeepSeek-V2-Lite", "Qwen3-Next-80B-A3B-Instruct"])
@given(key=st.text(min_size=1, max_size=120), value=st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=5,
))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_key_gives_an_answer_that_can_be_shown_or_a_clear_error(name: str, key: str, value: Any) -> None:
    config = config_of(name)
    if key in config:
        return
    try:
        model = spec(config | {key: value})
    except KvcalcError:  # a name that kvcalc reads, with a value that cannot be
        return
    said = [assumption.name for assumption in model.assumptions]
    assert all(letter.isprintable() for name in said for letter in name)
    assert len(said) <= len(spec(config_of(name)).assumptions) + 2


def test_a_list_of_windows_with_nulls_for_layers_without() -> None:
    config = config_of(DENSE, model_type="newcomer", sliding_window=[512, None] * 16)
    windows = {m.window: g.count for g in spec(config).groups for m in g.mixers if m.kind == "attention"}
    assert windows == {512: 16, None: 16}
