"""Look up a family's traits in the tables."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.files.sections import find_table
from kvcalc.specs.build import build

PARTS = ("dense", "moe", "latent", "hybrid", "older", "encoder_decoder", "multimodal")


@cache
def _texts() -> tuple[str, ...]:
    folder = files("kvcalc.catalog.config.families")
    return tuple(folder.joinpath(f"{part}.toml").read_text(encoding="utf-8") for part in PARTS)


@cache
def _entry(model_type: str) -> dict[str, Any] | None:
    return find_table(_texts(), model_type)


def _merged(model_type: str) -> dict[str, Any]:
    found = _entry(model_type)
    assert found is not None, model_type  # the tables are the package's own
    entry = dict(found)
    base = entry.get("like", "") or entry.get("text", "")
    more = entry.pop("more", [])  # tensors beside those of the family it is like
    merged = {**_merged(base), **entry} if base else entry
    return {**merged, "extra": [*merged.get("extra", []), *more]}


@cache
def _refused() -> dict[str, str]:
    text = files("kvcalc.catalog.config.families").joinpath("refused.toml").read_text(encoding="utf-8")
    return {name: why for why, entry in tomllib.loads(text).items() for name in entry["types"]}


@cache
def traits_of(model_type: str) -> Traits:
    """The traits of a model_type; those of a plain decoder, marked unknown, where the table has none."""
    if model_type in _refused():
        return Traits(refuse=_refused()[model_type])
    if _entry(model_type) is None:
        return Traits(known=False, window="said")
    return build(Traits, _merged(model_type))
