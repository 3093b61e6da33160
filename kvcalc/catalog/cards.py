"""Model cards: one TOML file a model, with the keys of its config.json and a source on each number.

    name = "llama-3-8b"                     the file is llama-3-8b.toml
    title = "Llama 3 8B"
    hub = "meta-llama/Meta-Llama-3-8B"
    aliases = ["meta-llama/Meta-Llama-3-8B-Instruct"]    same shape
    explicit_null = ["sliding_window"]      keys that the config sets to null (TOML has none, and absent is not null)
    [source]                                where the config was read
    [config]                                as in config.json, the keys that decide shape, cache and weights
    [published.parameters]                  counts by others: value, source

A card never holds kvcalc's own output: the tests compare what is published with what kvcalc counts.
"""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.catalog.files.toml import data_dir, read_toml
from kvcalc.catalog.names import did_you_mean
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Count, Frozen, Source, field
from kvcalc.specs.build import build
from kvcalc.specs.from_file import Mistake, from_file
from kvcalc.specs.model import ModelSpec

LISTING = "`kvcalc models` lists the cards; a Hub id has the form owner/name"
_HEAD_BYTES = 2000  # name, hub and aliases come first in a card
_PREFIX = re.compile(r"\Ameta-(?=llama)")
_CHAT = re.compile(r"-(?:instruct|it|chat|hf)\Z")


class Published(Frozen):
    """A count that somebody else made."""

    value: Count
    source: str


class Card(Frozen):
    """One model: either the keys of its `config.json`, or a whole `spec` (a model that no config describes)."""

    name: str
    title: str
    hub: str | None = None
    aliases: tuple[str, ...] = ()  # other Hub ids of the same shape
    explicit_null: tuple[str, ...] = ()
    source: Source
    config: dict[str, Any] | None = None
    hf_quant_config: dict[str, Any] | None = None
    spec: dict[str, Any] | None = None
    published: dict[str, Published] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.config is None) == (self.spec is None):
            raise ValueError("give either [config] (keys of config.json) or [spec] (a model in kvcalc's own terms)")


def card_names() -> list[str]:
    """The names of all cards, sorted; no card is parsed."""
    return list(_names())


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in data_dir("model_cards").glob("*.toml")))


def find_card(name: str) -> Card | None:
    """The card of this name, Hub id or alias; None if there is none. Only the card that is found is parsed."""
    wanted = name.lower()
    folder = data_dir("model_cards")
    if wanted in _names():
        return _own_card(folder / f"{wanted}.toml")
    if "/" not in name:
        return None
    quoted = f'"{wanted}"'.encode()
    for path in sorted(folder.glob("*.toml")):
        with path.open("rb") as file:
            if quoted not in file.read(_HEAD_BYTES).lower():
                continue
        card = _own_card(path)
        if wanted in {alias.lower() for alias in (card.hub or "", *card.aliases)}:
            return card
    return None


def card_of_file(name: str) -> Card | None:
    """The card that a file is named after, as those who publish GGUFs name them: `Meta-Llama-3.1-8B-Instruct`.

    A chat model has the shape of its base.

    >>> card_of_file("google_gemma-3-12b-it").name
    'gemma-3-12b'
    """
    base = name.lower().replace(" ", "-")
    for whole in dict.fromkeys((base, base.partition("_")[2], base.replace("_", "-"))):
        for wanted in dict.fromkeys((whole, _PREFIX.sub("", whole), _CHAT.sub("", _PREFIX.sub("", whole)))):
            if wanted in card_names():
                return find_card(wanted)
            found = _ending_with(wanted) if wanted else None
            if found is not None:
                return found
    return None


def _ending_with(repository: str) -> Card | None:
    """The card of a Hub id or an alias whose second half this is."""
    ending = f'/{repository}"'.encode()
    for path in sorted(data_dir("model_cards").glob("*.toml")):
        with path.open("rb") as file:
            if ending not in file.read(_HEAD_BYTES).lower():
                continue
        card = _own_card(path)
        if repository in {alias.lower().rpartition("/")[2] for alias in (card.hub or "", *card.aliases)}:
            return card
    return None


def read_card(path: Path) -> Card:
    """A card from a user's file.

    Raises:
        KvcalcError: not TOML, or a key that a card does not have; the first mistake is named.
    """
    return _card(read_toml(path, "model card"), path.stem, str(path))


def read_card_text(text: str, name: str) -> Card:
    """A card from its text."""
    return _card(tomllib.loads(text), name, name)


def _own_card(path: Path) -> Card:
    return _with_nulls(build(Card, _named(read_toml(path, "model card"), path.stem, str(path))), str(path))


def _card(data: dict[str, Any], name: str, where: str) -> Card:
    try:
        card = from_file(Card, _named(data, name, where))
    except Mistake as error:
        raise KvcalcError(
            f"model card {where}: {error.where or 'the card'}: {error.why}",
            hint="the form is described in docs/how-to/model-sources.md",
        ) from error
    return _with_nulls(card, where)


def _named(data: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    """What a card says of itself, with what it need not say."""
    return {"name": name, "title": data.get("name", name), "source": {"what": where}} | data


def _with_nulls(card: Card, where: str) -> Card:
    if card.config is not None:
        for dotted in card.explicit_null:
            _set_null(card.config, dotted, where)
    return card


def _set_null(config: dict[str, Any], dotted: str, where: str) -> None:
    *parents, key = dotted.split(".")
    place = config
    for parent in parents:
        inner = place.get(parent)
        if not isinstance(inner, dict):
            raise KvcalcError(f"model card {where}: explicit_null names {dotted}, but {parent} is no table of [config]",
                              hint="name a key of [config], with dots for nested tables")  # fmt: skip
        place = inner
    place[key] = None


def spec_of(card: Card) -> ModelSpec:
    """The ModelSpec that a card spells out in its [spec].

    Raises:
        KvcalcError: a field that a ModelSpec does not have, or a value out of range; the first mistake is named.
    """
    assert card.spec is not None
    given = {"name": card.name, "family": "spec", "sources": [dict(vars(card.source))]} | card.spec
    for part in ("groups", "mtp"):
        for group in given.get(part, []):
            if isinstance(group, dict) and isinstance(group.get("layers"), int):
                group["layers"] = list(range(group["layers"])) if 0 <= group["layers"] <= 10_000 else group["layers"]
    try:
        return from_file(ModelSpec, given)
    except Mistake as error:
        raise KvcalcError(
            f"model card {card.name}: spec.{error.where}: {error.why}",
            hint="[spec] takes the fields of kvcalc.specs.model.ModelSpec",
        ) from error


def missing_card(name: str) -> KvcalcError:
    """The error for a name that is neither a card nor anything else."""
    return KvcalcError(f"unknown model {name[:100]!r}", hint=did_you_mean(name, card_names(), LISTING))
