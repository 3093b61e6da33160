"""What a config class declares for the keys that a config leaves out."""

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def _table() -> dict[str, dict[str, object]]:
    text = files("kvcalc.catalog.config.families").joinpath("class_defaults.json").read_text(encoding="utf-8")
    table: dict[str, dict[str, object]] = json.loads(text)["classes"]
    return table


def defaults_of(model_type: str) -> Mapping[str, object]:
    """Declared defaults by key; nothing for a class that is not in the table."""
    return _table().get(model_type, {})
