"""Reading keys: aliases, absent against null, class defaults, what one layer says, types."""

import pytest

from kvcalc.catalog.config.keys import MOST_ENTRIES, Keys
from kvcalc.errors import KvcalcError


def test_the_first_alias_present_wins() -> None:
    keys = Keys({"n_head": None, "num_heads": 16})
    assert keys.integer("num_attention_heads", "n_head", "num_heads") is None


def test_two_aliases_with_two_values_are_an_error_that_shows_both() -> None:
    keys = Keys({"n_head": 12, "n_heads": 16.0}, "text_config")
    with pytest.raises(KvcalcError, match=r"text_config\.n_head is 12 and text_config\.n_heads is 16"):
        keys.integer("num_attention_heads", "n_head", "n_heads")


def test_a_name_with_a_second_meaning_or_no_number_is_a_doubt() -> None:
    keys = Keys({"num_attention_heads": 12, "num_heads": 16, "n_heads": "many"})
    assert keys.integer("num_attention_heads", "num_heads", "n_heads") == 12
    assert list(keys.doubts()) == ["num_heads", "n_heads"]


def test_lengths_may_differ() -> None:
    keys = Keys({"max_position_embeddings": 32768, "seq_length": 8192, "model_max_length": 4096})
    assert keys.integer("max_position_embeddings", "seq_length", "model_max_length") == 32768
    assert not keys.doubts()


def test_an_absent_key_means_its_class_default_and_null_does_not() -> None:
    declared = {"q_lora_rank": 1536}
    assert Keys({}, defaults=declared).integer("q_lora_rank") == 1536
    assert Keys({"q_lora_rank": None}, defaults=declared).integer("q_lora_rank") is None


def test_a_class_that_declares_null_beats_the_callers_default() -> None:
    assert Keys({}, defaults={"head_dim": None}).integer("head_dim", default=64) is None
    assert Keys({}).integer("head_dim", default=64) == 64


def test_what_a_layer_says_comes_first() -> None:
    keys = Keys({"num_key_value_heads": 8}).over({"num_key_value_heads": 4})
    assert keys.integer("num_key_value_heads", "n_head_kv") == 4
    assert keys.over({}) is keys


def test_what_was_read_is_remembered_across_views() -> None:
    keys = Keys({"a": 1, "b": 2, "c": 3})
    keys.over({"a": 5}).integer("a")
    keys.with_defaults({}).integer("b")
    assert keys.unread() == ["c"]
    keys.ignore("c")
    assert keys.unread() == []


@pytest.mark.parametrize(
    "value", [True, "8", [8], {"a": 8}, 8.5, float("nan"), float("inf"), -1, 0, 10**9, 10**400, -(10**400)]
)
def test_wrong_whole_numbers_are_named(value: object) -> None:
    with pytest.raises(KvcalcError) as error:
        Keys({"heads": value}, "text_config").integer("heads")
    assert error.value.message.startswith("text_config.heads is ")
    assert len(error.value.message) < 200


def test_a_whole_number_written_as_a_fraction_is_read() -> None:
    assert Keys({"hidden_size": 4096.0}).need("hidden_size") == 4096


@pytest.mark.parametrize("value", [1, 0, "true", [], 1.0])
def test_a_flag_is_true_or_false(value: object) -> None:
    with pytest.raises(KvcalcError, match=r"use_bias is .*, not true or false"):
        Keys({"use_bias": value}).flag("use_bias")


def test_a_missing_key_names_all_its_spellings() -> None:
    with pytest.raises(KvcalcError, match=r"no text_config.hidden_size \(or n_embd\)"):
        Keys({}, "text_config").need("hidden_size", "n_embd")


def test_lists_are_checked_entry_by_entry_and_not_too_long() -> None:
    assert Keys({"layers": [1, 2]}).integers("layers") == [1, 2]
    with pytest.raises(KvcalcError, match="layers is true"):
        Keys({"layers": [1, True]}).integers("layers")
    with pytest.raises(KvcalcError, match="entries, more than"):
        Keys({"layers": [0] * (MOST_ENTRIES + 1)}).integers("layers")
    with pytest.raises(KvcalcError, match="layer_types is 5"):
        Keys({"layer_types": [5]}).texts("layer_types")


def test_an_entry_of_a_list_or_the_one_number_for_all() -> None:
    assert Keys({"widths": [1536, 512]}).entry("widths", 1) == 512
    assert Keys({"widths": 1536}).entry("widths", 1) == 1536
    with pytest.raises(KvcalcError, match="no entry 2"):
        Keys({"widths": [1536, 512]}).entry("widths", 2)


def test_nested_objects_keep_their_path() -> None:
    inner = Keys({"attn_config": {"kv_n_heads": "8"}}).child("attn_config")
    assert inner is not None
    with pytest.raises(KvcalcError, match=r"attn_config\.kv_n_heads is '8'"):
        inner.integer("kv_n_heads")


@pytest.mark.parametrize("config", [[], "text", 5, None])
def test_a_config_is_an_object(config: object) -> None:
    with pytest.raises(KvcalcError, match="not an object"):
        Keys(config)
