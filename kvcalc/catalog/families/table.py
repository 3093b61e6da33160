"""Look up a family's traits, and evaluate what is up to the config in them."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from kvcalc.catalog.families.traits import Size, Switch, Traits
from kvcalc.catalog.keys import Keys

PARTS = ("dense", "moe", "latent", "hybrid", "older", "encoder_decoder", "multimodal")


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = {}
    for part in PARTS:
        text = files("kvcalc.catalog.families").joinpath(f"{part}.toml").read_text(encoding="utf-8")
        table.update(tomllib.loads(text))
    return table


def _merged(model_type: str) -> dict[str, Any]:
    entry = dict(_table()[model_type])
    base = entry.get("like", "")
    return {**_merged(base), **entry} if base else entry


@cache
def traits_of(model_type: str) -> Traits:
    """The traits of a model_type; those of a plain decoder, marked unknown, where the table has none."""
    if model_type not in _table():
        return Traits(known=False)
    return Traits.model_validate(_merged(model_type))


def switch(keys: Keys, value: Switch) -> bool:
    """Whether a trait is on, where it may be up to the config."""
    if isinstance(value, bool):
        return value
    return all(_term(keys, term) for term in value.split("&"))


def _term(keys: Keys, term: str) -> bool:
    name, _, absent = term.removeprefix("!").partition(":")
    name, _, wanted = name.partition("=")
    on = str(keys.raw(name)) == wanted if wanted else keys.truth(name, default=absent == "true")
    return on != term.startswith("!")


def size(keys: Keys, value: Size, scope: Mapping[str, int]) -> int:
    """A size: a number, a name in scope, a key of the config, a product or a sum of these, or the first one that is."""
    if isinstance(value, int):
        return value
    for choice in value.split("|"):
        total = sum(_product(keys, part, scope) for part in choice.split("+"))
        if total:
            return total
    return 0


def _product(keys: Keys, text: str, scope: Mapping[str, int]) -> int:
    total = 1
    for factor in text.split("*"):
        name, _, absent = factor.partition(":")
        known = int(name) if name.isdecimal() else scope.get(name)
        total *= keys.count(name, default=int(absent or 0)) if known is None else known
    return total
