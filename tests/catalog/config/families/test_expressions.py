"""Sizes and switches of the family tables, and the names that tables may use."""

import tomllib
from importlib.resources import files

import pytest

from kvcalc.catalog.config.expression import names
from kvcalc.catalog.config.families.sizes import scope, size, switch
from kvcalc.catalog.config.families.table import PARTS, traits_of
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

KEYS = Keys({"hc_mult": 4, "widths": [1536, 512], "use_bias": True, "kind": "gated-gelu", "ids": [], "half": 1.5})
PLAIN = Traits()
TAGS = {
    *("layer", "model", "attention", "recurrent", "owner", "shared", "first", "rest", "last"),
    *("full", "sliding", "chunked", "indexed", "indexer", "cross"),
    *("dense", "moe", "plain_moe", "hash_moe"),
}


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
        ("2.0*hidden", 128),
        ("absent", 0),
    ],
)
def test_sizes(text: str, want: int) -> None:
    assert size(KEYS, PLAIN, text, {"hidden": 64}) == want


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
    assert switch(KEYS, PLAIN, text) is want


def test_a_scope_hides_a_key() -> None:
    assert size(KEYS, PLAIN, "hc_mult", {"hc_mult": 7}) == 7


def test_what_is_no_size_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="half"):
        size(KEYS, PLAIN, "2*half + 0.5")


@pytest.mark.parametrize("text", ["__import__('os')", "[1, 2]", "lambda: 1"])
def test_nothing_else_is_understood(text: str) -> None:
    with pytest.raises((AssertionError, KeyError)):
        size(KEYS, PLAIN, text, {"hidden": 64})


def test_a_size_out_of_range_is_an_error() -> None:
    with pytest.raises(KvcalcError, match="does not come to a size"):
        size(KEYS, PLAIN, "hidden**9", {"hidden": 64})


def test_a_named_size_is_worked_out_in_the_same_scope() -> None:
    traits = Traits(sizes={"inner": "absent or 4*hidden", "twice": "2*inner"})
    assert size(KEYS, traits, "twice", {"hidden": 64}) == 512


def test_a_missing_key_is_named_by_what_the_size_is_made_of() -> None:
    traits = Traits(sizes={"inner": "one or other"})
    with pytest.raises(KvcalcError, match=r"does not say one or other, a size of x\.weight"):
        scope(KEYS, traits).at_least_one("inner", "x.weight")


def families() -> list[str]:
    folder = files("kvcalc.catalog.config.families")
    return [name for part in PARTS for name in tomllib.loads(folder.joinpath(f"{part}.toml").read_text("utf-8"))]


@pytest.mark.parametrize("family", families())
def test_every_table_reads_and_its_tensors_name_kinds_of_layer_that_exist(family: str) -> None:
    for extra in traits_of(family).extra:
        assert set(names(extra.on)) <= TAGS, extra.name
