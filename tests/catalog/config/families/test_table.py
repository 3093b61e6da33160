"""The family tables: every name they use exists, and every expression can be read."""

import ast
import tomllib
from importlib.resources import files

import pytest

from kvcalc.catalog.config.families.table import PARTS, traits_of
from kvcalc.catalog.config.families.traits import Traits

TABLES = {
    part: tomllib.loads(files("kvcalc.catalog.config.families").joinpath(f"{part}.toml").read_text(encoding="utf-8"))
    for part in PARTS
}
FAMILIES = [name for table in TABLES.values() for name in table]


def test_no_family_stands_twice() -> None:
    assert len(FAMILIES) == len(set(FAMILIES))


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_valid(name: str) -> None:
    traits = traits_of(name)
    assert traits.known
    assert not traits.encoder or traits.encoder in FAMILIES
    for text in expressions(traits):
        ast.parse(text, mode="eval")


def expressions(traits: Traits) -> list[str]:
    found = [value for extra in traits.extra for value in (*extra.shape, extra.copies, extra.when)]
    found += [traits.width, traits.qkv_bias, traits.o_bias, traits.mlp_bias, traits.gated, traits.expert_input]
    found += [text.partition(" if ")[2] for text in traits.norms if " if " in text]
    return [value for value in found if isinstance(value, str)]


def test_refused_architectures_are_in_no_table() -> None:
    refused = tomllib.loads(
        files("kvcalc.catalog.config.families").joinpath("refused.toml").read_text(encoding="utf-8")
    )
    names = [name for entry in refused.values() for name in entry["types"]]
    assert not set(names) & set(FAMILIES)
    assert all(traits_of(name).refuse for name in names)


def test_a_family_that_nobody_knows() -> None:
    assert not traits_of("nobody_knows").known
