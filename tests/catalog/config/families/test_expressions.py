"""Sizes and switches of the family tables."""

import pytest

from kvcalc.catalog.config.families.expressions import size, switch
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

KEYS = Keys({"hc_mult": 4, "widths": [1536, 512], "use_bias": True, "kind": "gated-gelu", "ids": [], "half": 1.5})


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("hidden", 64),
        ("hc_mult*hidden", 256),
        ("hc_mult*hc_mult + 2*hc_mult", 24),
        ("hidden//2 - 1", 31),
        ("absent or 6", 6),
        ("hc_mult or 6", 4),
        ("widths[1]", 512),
        ("absent", 0),
    ],
)
def test_sizes(text: str, want: int) -> None:
    assert size(KEYS, text, {"hidden": 64}) == want


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("use_bias", True),
        ("not use_bias", False),
        ("absent", False),
        ("absent != False", True),
        ("use_bias != False", True),
        ("use_bias == False", False),
        ("kind == 'gated-gelu'", True),
        ("use_bias and not (hc_mult == 4)", False),
        ("ids", False),
    ],
)
def test_switches(text: str, want: bool) -> None:
    assert switch(KEYS, text) is want


def test_a_scope_hides_a_key() -> None:
    assert size(KEYS, "hc_mult", {"hc_mult": 7}) == 7


def test_what_is_no_size_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="half"):
        size(KEYS, "2*half")


@pytest.mark.parametrize("text", ["__import__('os')", "[1, 2]", "lambda: 1"])
def test_nothing_else_is_understood(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        size(KEYS, text, {"hidden": 64})


def test_a_size_out_of_range_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="does not come to a size"):
        size(KEYS, "hidden**9", {"hidden": 64})
