"""Keys of a config that nothing has read. Three classes, as data with reasons (unknown.toml):

- they change nothing that is counted: passed over;
- they speak of a part that this model does not have: listed with the answer;
- unknown: a doubt, listed and warned of, and an error where the user asks for strictness.

A name that sounds harmless is no reason to pass a key over: widths, ranks, sizes and counts weigh like caches do.
"""

import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from kvcalc.catalog.config.keys import Keys, shown
from kvcalc.catalog.config.scope import Scope
from kvcalc.specs.base import Assumption
from kvcalc.specs.model import LayerGroup

_OFF: tuple[object, ...] = (None, False, 0, "", [], {})
_LONGEST = 80  # of a key's name in an answer
MOST = 20  # keys that are named; the rest are counted
WHY = "kvcalc does not know this key: whatever it changes is not in these figures"


class Names:
    """A list of names, in which `*` stands for anything at the beginning, at the end or at both. Nothing is compiled:
    a start that reads one config has no time for it.
    """

    def __init__(self, names: Iterable[str]) -> None:
        listed = list(names)
        self._whole = {name for name in listed if "*" not in name}
        self._starts = tuple(name[:-1] for name in listed if name.endswith("*") and not name.startswith("*"))
        self._ends = tuple(name[1:] for name in listed if name.startswith("*") and not name.endswith("*"))
        self._middles = tuple(name[1:-1] for name in listed if name.startswith("*") and name.endswith("*"))

    def __contains__(self, name: str) -> bool:
        if name in self._whole or name.startswith(self._starts) or name.endswith(self._ends):
            return True
        return any(part in name for part in self._middles)


class Known(NamedTuple):
    """Keys whose part is known, in the models of which `when` holds."""

    why: str  # "": nothing to say
    when: str
    names: Names
    silent: bool


class Unread(NamedTuple):
    """What the keys that nothing read amount to."""

    assumptions: tuple[Assumption, ...]
    doubts: tuple[Assumption, ...]  # those of them that are warned of


@cache
def _table() -> tuple[Names, tuple[Known, ...]]:
    text = files("kvcalc.catalog.config").joinpath("unknown.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    always = Names(name for entry in data["nothing"] if "when" not in entry for name in entry["keys"])
    parts = [(entry, True) for entry in data["nothing"] if "when" in entry]
    known = [
        Known(entry["why"], entry["when"], Names(entry["keys"]), silent)
        for entry, silent in (*parts, *((entry, False) for entry in data["elsewhere"]))
    ]
    return always, tuple(known)


def weigh(keys: Keys, understood: Collection[str], facts: Mapping[str, bool], deep: bool = True) -> Unread:
    """The keys that nothing read, weighed; and what reading doubted.

    Args:
        keys: of one object of the config, after everything else has read it.
        understood: names that its family knows to change nothing.
        facts: what the model has: see facts_of.
        deep: look into nested objects too.
    """
    listed: list[Assumption] = []
    doubts: list[Assumption] = []
    scope = Scope(keys, given=facts)
    for name, value, path in _unread(keys, deep):
        if name in understood:
            continue
        why = _why(name, scope)
        if why:
            found = Assumption(name=_printable(path), value=_short(value), why=why)
            (doubts if why is WHY else listed).append(found)
    doubts += [
        Assumption(name=_printable(path), value=None, why=str(why))
        for path, why in keys.doubts().items()
        if path.rpartition(".")[2] not in understood
    ]
    more = len(doubts) - MOST
    if more > 0:
        doubts = [*doubts[:MOST], Assumption(name="more keys", value=more, why=WHY)]
    return Unread((*listed[:MOST], *doubts), tuple(doubts))


def _why(name: str, scope: Scope) -> str:
    """What is known of a key that nothing read; "" where that is not worth a word."""
    for known in _table()[1]:
        if name in known.names:
            if scope.holds(known.when):
                return "" if known.silent else known.why
            if known.silent:
                return f"{known.why}: this model has none"
    return "" if _harmless(name) else WHY


def facts_of(groups: tuple[LayerGroup, ...]) -> Mapping[str, bool]:
    """What a model has, for the conditions of the tables."""
    mixers = [mixer for group in groups for mixer in group.mixers]
    kinds = {mixer.kind for mixer in mixers}
    return {
        "has_experts": any(group.mlp is not None and group.mlp.kind == "moe" for group in groups),
        "has_mlps": any(group.mlp is not None for group in groups),
        "has_latents": bool(kinds & {"latent", "compressed"}),
        "has_states": "recurrent" in kinds,
        "has_mamba": any(getattr(mixer, "family", "").startswith("mamba") for mixer in mixers),
        "has_indexers": "compressed" in kinds or any(getattr(mixer, "indexer", None) for mixer in mixers),
        "has_windows": any(getattr(mixer, "window", None) for mixer in mixers),
    }


def _harmless(name: str) -> bool:
    return name in _table()[0]


def _unread(keys: Keys, deep: bool) -> Iterator[tuple[str, object, str]]:
    """Name, value and path of each, in nested objects that were looked into too. What is off says nothing."""
    for name in keys.unread():
        value = keys.value(name)
        if not keys.declared(name) and not any(value is off or value == off for off in _OFF):
            yield name, value, keys.path(name)
    for nested in keys.opened() if deep else ():
        if not _harmless(nested.name):
            yield from _unread(nested, deep)


def _printable(path: str) -> str:
    """A key as an answer may show it: whoever wrote the config chose its characters."""
    return "".join(letter if letter.isprintable() else "?" for letter in path[:_LONGEST])


def _short(value: object) -> str | int | float | bool | None:
    return value if isinstance(value, bool | int | float) else shown(value)[:_LONGEST]
