"""Quantities as vLLM and data sheets write them."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc import units
from kvcalc.errors import KvcalcError


# vLLM's own: "--max-model-len 1k -> 1000, 1K -> 1024, 25.6k -> 25,600" (vllm serve --help)
@pytest.mark.parametrize(
    "text, value",
    [("8192", 8192), ("8k", 8000), ("8K", 8192), ("25.6k", 25600), ("1m", 10**6), ("1M", 2**20), ("1,024", 1024)],
)
def test_tokens(text: str, value: int) -> None:
    assert units.parse_tokens(text) == value


@pytest.mark.parametrize("text", ["8.5K", "0.1k1", "8 000", "8kk", "-8k", "", "k", "1e3", "0.0001k", "８k", "1" * 41])
def test_tokens_refused(text: str) -> None:
    with pytest.raises(KvcalcError):
        units.parse_tokens(text)


@pytest.mark.parametrize(
    "text, value", [("80GB", 80 * 10**9), ("80GiB", 80 * 2**30), ("1.5 TiB", 3 * 2**39), ("0B", 0), ("1kB", 1000)]
)
def test_bytes(text: str, value: int) -> None:
    assert units.parse_bytes(text) == value


@pytest.mark.parametrize("text", ["80", "80G", "80Gb", "80gb", "80KB", "GB", "80GBs", "-1GB", "9999999999TB"])
def test_bytes_refused(text: str) -> None:
    with pytest.raises(KvcalcError):
        units.parse_bytes(text)


@pytest.mark.parametrize("text, value", [("50ms", 0.05), ("1s", 1.0), ("2min", 120.0), ("250us", 0.00025)])
def test_seconds(text: str, value: float) -> None:
    assert units.parse_seconds(text) == value


@given(st.integers(0, 10**15))
def test_whole_numbers_survive(value: int) -> None:
    assert units.parse_tokens(str(value)) == value
    assert units.parse_tokens(f"{value:,}") == value
    assert units.parse_bytes(f"{value}B") == value


def read(parse: Callable[[str], float], text: str) -> float | KvcalcError:
    try:
        return parse(text)
    except KvcalcError as error:
        return error


@given(st.text(max_size=60))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    for parse in (units.parse_tokens, units.parse_bytes, units.parse_seconds, units.parse_count, units.parse_number):
        found = read(parse, text)
        assert found.hint if isinstance(found, KvcalcError) else found >= 0


def test_binary_and_decimal_are_never_mixed() -> None:
    assert units.format_bytes(80e9) == "74.51 GiB"
    assert units.format_decimal_bytes(80e9) == "80.0 GB"
    assert units.format_bytes(2**40) == "1.00 TiB"
    assert units.format_si(2**40, "FLOP/s") == "1.10 TFLOP/s"


@given(st.floats(1, 1e17))
def test_formatted_bytes_read_back(value: float) -> None:
    back = units.parse_bytes(units.format_bytes(value, 6).replace(",", ""))
    assert back == pytest.approx(value, rel=1e-5, abs=1)


@pytest.mark.parametrize(
    "text, value", [("400Gbit/s", 50e9), ("400 Gbps", 50e9), ("50GB/s", 50e9), ("100Mbit/s", 12.5e6)]
)
def test_a_link_in_bits_or_bytes(text: str, value: float) -> None:
    assert units.parse_bandwidth(text) == value


@pytest.mark.parametrize("text, value", [("0.9", 0.9), ("90%", 0.9), ("90 %", 0.9), (".5", 0.5), ("1", 1.0)])
def test_shares(text: str, value: float) -> None:
    assert units.parse_share(text) == value


@pytest.mark.parametrize("text, value", [("500k", 500_000), ("2.5k", 2500), ("1,024", 1024), ("1K", 1024), ("7", 7)])
def test_counts_and_rates_are_written_as_tokens_are(text: str, value: int) -> None:
    assert units.parse_count(text) == units.parse_number(text) == units.parse_tokens(text) == value
