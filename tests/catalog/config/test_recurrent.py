"""Recurrent mixers against the real modules' parameters and the real caches' bytes (data/recurrent.toml)."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.recurrent import kind_of, read_recurrent
from kvcalc.catalog.config.recurrent.parts import Mixed
from kvcalc.errors import KvcalcError

CASES = tomllib.loads((Path(__file__).parents[2] / "data" / "recurrent.toml").read_text(encoding="utf-8"))


def having(key: str) -> list[str]:
    return [name for name, case in CASES.items() if key in case]


def read(config: dict[str, Any], kind: str = "") -> Mixed:
    keys = Keys(config)
    return read_recurrent(keys, keys.need("hidden_size"), kind)


def read_case(name: str, **other: object) -> Mixed:
    return read({**CASES[name]["config"], **other}, CASES[name]["kind"])


@pytest.mark.parametrize("name", having("parameters"))
def test_parameters_are_those_of_the_module(name: str) -> None:
    tensors = read_case(name).tensors
    assert sum(tensor.parameters for tensor in tensors) == CASES[name]["parameters"]
    assert {tensor.category for tensor in tensors} == {"recurrent"}


@pytest.mark.parametrize("name", CASES)
def test_the_keys_tell_the_kind(name: str) -> None:
    found = kind_of(Keys(CASES[name]["config"]))
    assert CASES[name]["kind"].startswith(found), "layouts in a checkpoint may differ, the state may not"


@pytest.mark.parametrize("name", having("state_bytes"))
def test_state_is_that_of_the_real_cache(name: str) -> None:
    case, mixer = CASES[name], read_case(name).mixer
    convolution = 2 * mixer.conv_channels * mixer.conv_kernel
    assert case["layers"] * (case["element_bytes"] * mixer.state_elements + convolution) == case["state_bytes"]


@pytest.mark.parametrize("name", having("kept_bytes"))
def test_engines_keep_one_column_less(name: str) -> None:
    case, mixer = CASES[name], read_case(name).mixer
    convolution = 2 * mixer.conv_channels * (mixer.conv_kernel - 1)
    assert case["layers"] * (4 * mixer.state_elements + convolution) == case["kept_bytes"]


def test_the_state_dtype_that_the_config_says() -> None:
    assert read_case("qwen3.5-27b").mixer.state_dtype == "fp32"
    assert read_case("qwen3-next").mixer.state_dtype is None, "then it is the engine's rule"
    assert read_case("kimi-linear").mixer.state_dtype == "fp32"
    assert read_case("minimax", torch_dtype="float16").mixer.state_dtype == "fp16"


@pytest.mark.parametrize("name", ["qwen3.5-27b", "nemotron-3-nano"])
def test_an_fp32_state_comes_with_fp32_decays(name: str) -> None:
    """Qwen3.5-122B's files have 36 × 64 elements of A_log in fp32, Nemotron-3-Nano's 23 × 64, by their sizes."""
    wide = [tensor.name for tensor in read_case(name).tensors if tensor.format.name == "fp32"]
    assert len(wide) == 1
    assert wide[0].endswith(".A_log")


def test_a_hybrids_head_dim_is_its_attentions() -> None:
    assert read_case("granite-4.0-h-350m", head_dim=999).mixer == read_case("granite-4.0-h-350m").mixer


def test_no_key_says_the_kind() -> None:
    with pytest.raises(KvcalcError, match="no key that says"):
        kind_of(Keys({"hidden_size": 1024}))


def test_an_unknown_state_dtype_is_refused() -> None:
    with pytest.raises(KvcalcError, match="float7"):
        read_case("qwen3.5-27b", mamba_ssm_dtype="float7")


def test_later_rwkv_keeps_a_matrix_per_head() -> None:
    """RWKV-5 "Eagle" 7B: 64 heads of 64, so hidden × head_size elements, and two shifts (Peng et al. 2024)."""
    mixer = read({"hidden_size": 4096, "attention_hidden_size": 4096, "head_size": 64}).mixer
    assert (mixer.heads, mixer.state_elements) == (64, 4096 * 64)
    assert (mixer.conv_channels, mixer.conv_kernel - 1) == (2 * 4096, 1)


@given(
    heads=st.integers(1, 64),
    dim=st.sampled_from([32, 64, 128]),
    state=st.sampled_from([16, 64, 128]),
    groups=st.integers(1, 8),
)
def test_mamba2_state_is_heads_by_width_by_state(heads: int, dim: int, state: int, groups: int) -> None:
    config = {"hidden_size": 1024, "mamba_n_heads": heads, "mamba_d_head": dim, "mamba_n_groups": groups}
    mixer = read({**config, "mamba_d_state": state, "mamba_d_conv": 4}).mixer
    assert mixer.state_elements == heads * dim * state
    assert mixer.conv_channels == heads * dim + 2 * groups * state
