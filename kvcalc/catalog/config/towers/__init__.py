"""config.json → the towers beside a text decoder: vision, audio, and what joins them to it."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kvcalc.catalog.config.families.defaults import defaults_of
from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.scope import Scope
from kvcalc.catalog.config.towers.data import (
    Kind,
    ModelTable,
    Part,
    TowerTable,
    model_table,
    tower_defaults,
    tower_table,
)
from kvcalc.catalog.config.towers.table import tensors_of
from kvcalc.specs.base import Assumption
from kvcalc.specs.model import Category, Tower

TEXT = ("text_config", "llm_config", "language_config", "language_model_config")
CATEGORY: dict[Kind, Category] = {"vision": "vision", "audio": "audio", "encoder": "other", "other": "other"}
SIGNS = {"vision_config": "vision", "audio_config": "audio", "vision_tower_config": "vision", "visual": "vision"}
# Nested configs that are no tower: of the decoder, or of an encoder that is read with it.
DECODERS = {*TEXT, "decoder_config", "encoder_config", "quantization_config", "thinker_config"}


class Towers(NamedTuple):
    """The towers of a model, and what had to be taken for granted."""

    towers: tuple[Tower, ...] = ()
    assumptions: tuple[Assumption, ...] = ()


def read_towers(config: Mapping[str, object], root: Keys | None = None) -> Towers:
    """The towers of a model and the modules that join them to its decoder, tensor by tensor.

    A tower or a joint that kvcalc does not know is left out, and an Assumption says so.

    Args:
        config: the parsed config.json.
        root: its keys, to remember which of them were read.

    Raises KvcalcError where a size of a known tower is missing or makes no sense.
    """
    root = root or Keys(config)
    family = root.text("model_type") or ""
    table = model_table(family)
    if table is None:
        return _unknown_model(root)
    if table.inside:
        root = root.child(table.inside) or root
    return _known_model(root, family, table)


def _known_model(root: Keys, family: str, table: ModelTable) -> Towers:
    scopes: dict[str, Scope] = {"text": _text_scope(root, table)}
    for key, model_type in table.configs.items():
        scopes[key] = Scope((root.child(key) or Keys({}, key)).with_defaults(tower_defaults(model_type)))
    found: list[Tower] = []
    assumptions: list[Assumption] = []
    for name, part in table.parts.items():
        keys = _part_keys(root, part)
        if keys is None:
            continue
        model_type = _tower_type(keys, part)
        declared = tower_defaults(model_type)
        tower = tower_table(model_type)
        if tower is not None and tower.named_by:
            model_type = keys.with_defaults(declared).text(tower.named_by) or ""
            declared = {**declared, **tower_defaults(model_type)}
            tower = tower_table(model_type)
        if tower is None:
            assumptions.append(_not_counted(root.path(part.config), model_type))
            continue
        scope = Scope(keys.with_defaults(declared), tower.sizes, aliases=tower.aliases, others=scopes)
        scopes[part.config.split(".")[-1].removesuffix("_config")] = scope
        found.append(_tower(name, tower, scope))
    if found:
        scope = Scope(root.with_defaults(tower_defaults(family)), table.sizes, others=scopes)
        found += list(_joints(table, scope, found))
    if table.left_out:
        assumptions.append(Assumption(name="parts left out", value=family, why=table.left_out))
    return Towers(tuple(found), tuple(assumptions))


def _part_keys(root: Keys, part: Part) -> Keys | None:
    """The config of a part; for one that is absent or null, what the model's class takes, if it takes one."""
    found: Keys | None = root
    for key in part.config.split(".") if part.config else ():
        found = found.child(key) if found is not None else None
    return Keys(part.absent, part.config) if found is None and part.absent is not None else found


def _joints(table: ModelTable, scope: Scope, towers: list[Tower]) -> Iterator[Tower]:
    """What joins the towers that are there to the decoder."""
    kinds = {tower.kind for tower in towers}
    for name, tree in table.modules.items():
        own: Kind = tree.get("kind", towers[0].kind)
        if own not in kinds:
            continue
        leaves = {key: value for key, value in tree.items() if key != "kind"}
        tensors = tuple(tensors_of(leaves, scope, CATEGORY[own], name))
        if tensors:
            yield Tower(name=name, kind=own, tensors=tensors)


def _tower(name: str, table: TowerTable, scope: Scope) -> Tower:
    return Tower(
        name=name,
        kind=table.kind,
        hidden=scope.size(table.hidden),
        width=scope.size(table.width),
        gated=table.gated,
        layers=scope.size(table.layers),
        largest_item_tokens=table.largest_item_tokens,
        tensors=tuple(tensors_of(table.tree, scope, CATEGORY[table.kind], name)),
    )


def _text_scope(root: Keys, table: ModelTable) -> Scope:
    nested = root.child(*TEXT)
    if nested is None:  # the decoder's keys are the model's own, or all as its class declares them
        own = not table.text or root.has("hidden_size")
        keys = root if own else Keys(table.absent_text, TEXT[0])
    else:
        keys = nested
    model_type = (nested.text("model_type") if nested else None) or table.text or root.text("model_type") or ""
    return Scope(keys.with_defaults(defaults_of(model_type)))


def _tower_type(keys: Keys, part: Part) -> str:
    said = keys.text("model_type") if part.config else None
    if part.fixed or not said:
        return part.type
    return said


def _unknown_model(root: Keys) -> Towers:
    """Towers of a model_type without a table: those of known kinds, without what joins them to the decoder."""
    found: list[Tower] = []
    assumptions: list[Assumption] = []
    for key in root.names():
        if key.endswith("_config") and key not in {*DECODERS, *SIGNS} and isinstance(root.raw(key), Mapping):
            other = root.child(key)
            if other is not None and other.has("model_type"):  # a model inside the model
                assumptions.append(_not_counted(key, other.text("model_type") or ""))
    for key, kind in SIGNS.items():
        keys = root.child(key)
        if keys is None:
            continue
        model_type = keys.text("model_type") or ""
        table = tower_table(model_type)
        if table is None:
            assumptions.append(_not_counted(key, model_type))
            continue
        scope = Scope(keys.with_defaults(tower_defaults(model_type)), table.sizes, aliases=table.aliases)
        found.append(_tower(f"{kind}_tower", table, scope))
        assumptions.append(
            Assumption(
                name=f"{kind} projector",
                value=None,
                why="kvcalc does not know how this model_type joins its tower to the decoder: those weights, "
                "usually below one percent, are not counted",
            )
        )
    return Towers(tuple(found), tuple(assumptions))


def _not_counted(key: str, model_type: str) -> Assumption:
    return Assumption(
        name=key,
        value=model_type[:100] or None,
        why="a tower of a kind that kvcalc does not know: its weights are not counted",
    )
