"""Hostile configs: a clear KvcalcError, or an answer; never a traceback, never slow."""

import time
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import total_parameters
from kvcalc.counting.weights import weight_bytes
from kvcalc.errors import KvcalcError
from tests.catalog.real_models import MODELS, config_of, spec

SOME = [
    "Meta-Llama-3.1-8B", "gemma-3-1b-it", "DeepSeek-V2-Lite", "GLM-5.2", "Qwen3-Next-80B-A3B-Instruct",
    "NVIDIA-Nemotron-3-Super-120B-A12B-FP8", "DeepSeek-V4-Flash-NVFP4", "Falcon-H1-0.5B-Instruct", "whisper-tiny",
    "Llama-4-Scout-17B-16E-Instruct", "MiniMax-M2.5", "falcon-mamba-7b",
]  # fmt: skip


def nested(depth: int) -> Any:
    found: Any = {}
    for _ in range(depth):
        found = {"a": found, "b": [found]}
    return found


HOSTILE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(min_value=10**15, max_value=10**40), st.floats(), st.text(),
    st.lists(st.integers(), max_size=5), st.lists(st.text(max_size=20), max_size=5),
    st.dictionaries(st.text(max_size=10), st.integers(), max_size=3),
    st.sampled_from([10**5000, -(10**5000), 1e308, "../../etc/passwd", "x" * 10**5, nested(400), [nested(50)],
                     [0] * 20_000, ["full_attention"] * 200, [{}], [[1, 2], [3]]]),
)  # fmt: skip
MORE_KEYS = [
    "layer_types", "sliding_window", "kv_lora_rank", "index_topk", "block_configs", "num_nextn_predict_layers",
    "per_layer_config", "compress_ratios", "linear_attn_config", "text_config", "vision_config", "model_type",
    "quantization_config", "num_experts", "attention_types", "num_kv_shared_layers", "torch_dtype", "attn_config",
]  # fmt: skip


@pytest.mark.parametrize("name", SOME)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
def test_mutated_values_give_an_answer_or_a_clear_error(name: str, data: st.DataObject) -> None:
    config = config_of(name)
    for _ in range(data.draw(st.integers(1, 3))):
        key = data.draw(st.sampled_from(sorted(config) + MORE_KEYS))
        config[key] = data.draw(HOSTILE)
    start = time.perf_counter()
    error = error_of(config)
    assert error is None or (0 < len(error.message) < 600 and 0 < len(error.hint) < 600)
    assert time.perf_counter() - start < 60  # it hangs, were it longer


def error_of(config: dict[str, Any]) -> KvcalcError | None:
    """The whole way from a config to its counts, or the error on it; anything else is a failure."""
    try:
        model = spec(config)
        assert total_parameters(model) > 0
        assert cache_profile(model).stored(1000) >= 0
        assert weight_bytes(model) > 0
    except KvcalcError as error:
        return error
    return None


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size", "num_attention_heads"])
@pytest.mark.parametrize("value", [True, "4096", -1, 0, 10**30, float("nan"), [], {}, [4096]])
def test_a_wrong_type_names_its_key(key: str, value: object) -> None:
    with pytest.raises(KvcalcError, match=key):
        spec(config_of("Meta-Llama-3.1-8B", **{key: value}))


@pytest.mark.parametrize("groups", [7, 32_769])
def test_groups_of_outputs_divide_the_heads(groups: int) -> None:
    with pytest.raises(KvcalcError, match=f"do not divide into {groups} groups"):
        spec(config_of("DeepSeek-V4-Flash-NVFP4", o_groups=groups))


def test_sizes_that_are_well_alone_and_not_together() -> None:
    zamba = {"model_type": "zamba", "n_mamba_heads": 1_000_000}  # the width of a head is their quotient
    with pytest.raises(KvcalcError, match="do not go together"):
        spec(zamba)


@pytest.mark.parametrize("name", MODELS)
def test_a_key_left_out_is_taken_from_its_class_or_missed_by_name(name: str) -> None:
    for key in MODELS[name]["config"]:
        config = config_of(name)
        del config[key]
        error = error_of(config)
        assert error is None or len(error.message) < 600
