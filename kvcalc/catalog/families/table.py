"""Look up a family's traits in the tables."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from kvcalc.catalog.families.traits import Traits

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
    base = entry.get("like", "") or entry.get("text", "")
    more = entry.pop("more", [])  # tensors beside those of the family it is like
    merged = {**_merged(base), **entry} if base else entry
    return {**merged, "extra": [*merged.get("extra", []), *more]}


@cache
def _refused() -> dict[str, str]:
    text = files("kvcalc.catalog.families").joinpath("refused.toml").read_text(encoding="utf-8")
    return {name: why for why, entry in tomllib.loads(text).items() for name in entry["types"]}


@cache
def traits_of(model_type: str) -> Traits:
    """The traits of a model_type; those of a plain decoder, marked unknown, where the table has none."""
    if model_type in _refused():
        return Traits(refuse=_refused()[model_type])
    if model_type not in _table():
        return Traits(known=False, window="said")
    return Traits.model_validate(_merged(model_type))
