"""The configs of data/models.toml, and how to read one."""

import tomllib
from pathlib import Path
from typing import Any

from kvcalc.catalog.config.read import read_config
from kvcalc.specs.base import Source
from kvcalc.specs.model import ModelSpec

DATA = Path(__file__).parents[1] / "data"
MODELS: dict[str, Any] = tomllib.loads((DATA / "models.toml").read_text(encoding="utf-8"))


def spec(config: dict[str, Any]) -> ModelSpec:
    """What kvcalc makes of a config."""
    return read_config(config, "test", Source(what="test"))


def config_of(name: str, **other: Any) -> dict[str, Any]:
    """A model's config, some keys changed; TOML has no null, so keys that are null are listed apart."""
    case = MODELS[name]
    return {**case["config"], **dict.fromkeys(case.get("null", [])), **other}
