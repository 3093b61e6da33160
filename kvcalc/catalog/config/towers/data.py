"""The tables of towers and of the models that have them; data, in the TOML files beside this one."""

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from kvcalc.catalog.config.towers.table import Tree
from kvcalc.catalog.files.sections import find_table
from kvcalc.specs.base import Frozen, field
from kvcalc.specs.build import build

Kind = Literal["vision", "audio", "encoder", "other"]
# Files of towers, by the model_type of the tower's own config; and of models, by the model_type of the whole.
TOWERS = ("vision", "vision_more", "vision_older", "vision_timm", "vision_hub", "audio")
MODELS = ("models", "models_more", "models_older", "models_audio", "models_hub")


class TowerTable(Frozen):
    """One kind of tower. Sizes are expressions in the keys of its config."""

    kind: Kind = "vision"
    named_by: str = ""  # the key whose value names the table to read instead
    hidden: str = "hidden_size"
    width: str = "intermediate_size"
    layers: str = "num_hidden_layers"
    gated: bool = False
    largest_item_tokens: int = 0
    sizes: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, list[str]] = field(default_factory=dict)
    defaults: dict[str, Any] = field(
        default_factory=dict
    )  # beyond defaults.toml: what the class fills in after it is declared
    module: dict[str, Any] = field(default_factory=dict)  # a Tree

    @property
    def tree(self) -> Tree:
        return self.module


class Part(Frozen):
    """Where a model keeps a tower."""

    config: str  # the key of its config; "": the model's own
    type: str  # its kind, where the config does not say one that is known
    fixed: bool = False  # always that kind, whatever model_type the config says
    absent: dict[str, Any] | None = None  # what the model's class takes for a config without it; None: no tower


class ModelTable(Frozen):
    """The towers of one kind of model, and what joins them to its text decoder."""

    text: str = ""  # class of a text config that does not say its own; "": the decoder's keys are the model's own
    absent_text: dict[str, Any] = field(
        default_factory=dict
    )  # what the class takes for a text config that is absent, where not its defaults
    inside: str = ""  # the key of the config that has all the rest: thinker_config
    parts: dict[str, Part] = field(default_factory=dict)  # by module
    configs: dict[str, str] = field(default_factory=dict)  # further configs that sizes are read from, and their classes
    sizes: dict[str, str] = field(default_factory=dict)
    defaults: dict[str, Any] = field(default_factory=dict)
    modules: dict[str, dict[str, Any]] = field(
        default_factory=dict
    )  # Trees, by module; "kind" in one: whose tower it serves
    left_out: str = ""  # what the checkpoint has beyond this, and why it is not counted


@cache
def _texts(names: tuple[str, ...]) -> tuple[str, ...]:
    folder = files("kvcalc.catalog.config.towers")
    return tuple(folder.joinpath(f"{name}.toml").read_text(encoding="utf-8") for name in names)


@cache
def _entry(names: tuple[str, ...], name: str) -> dict[str, Any] | None:
    return find_table(_texts(names), name)


def _merged(names: tuple[str, ...], name: str) -> dict[str, Any]:
    """An entry on top of the one it is `like`: tables merge, anything else replaces; "" takes a tensor away."""
    found = _entry(names, name)
    assert found is not None, name  # the tables are the package's own
    entry = dict(found)
    base = entry.pop("like", "")
    return _over(_merged(names, base), entry) if base else entry


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        merged[key] = _over(old, value) if isinstance(value, dict) and isinstance(old, dict) else value
    return {key: value for key, value in merged.items() if value != ""}


@cache
def tower_table(model_type: str) -> TowerTable | None:
    """The table of a tower's model_type, or None."""
    known = _entry(TOWERS, model_type) is not None
    return build(TowerTable, _merged(TOWERS, model_type)) if known else None


@cache
def model_table(model_type: str) -> ModelTable | None:
    """The table of a model's model_type, or None."""
    known = _entry(MODELS, model_type) is not None
    return build(ModelTable, _merged(MODELS, model_type)) if known else None


def tower_defaults(model_type: str) -> Mapping[str, object]:
    """What the class of a tower, or of a model that has towers, takes for the keys that a config leaves out."""
    table = tower_table(model_type) or model_table(model_type)
    return {**(_entry(("defaults",), model_type) or {}), **(table.defaults if table else {})}
