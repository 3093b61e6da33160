"""Keys that look as if they shaped the cache and that nothing has read: an error, never a guess."""

import re
import tomllib
from collections.abc import Collection
from functools import cache
from importlib.resources import files

from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

_OFF: tuple[object, ...] = (None, False, 0, "", [], {})


@cache
def _table() -> tuple[re.Pattern[str], frozenset[str]]:
    text = files("kvcalc.catalog.config.families").joinpath("unread.toml").read_text(encoding="utf-8")
    data = tomllib.loads(text)
    return re.compile("|".join(data["shaping"])), frozenset(data["harmless"])


def refuse_unread(keys: Keys, declared: Collection[str]) -> None:
    """Raise KvcalcError for the first such key; `declared` are those of its class, whose part is known."""
    shaping, harmless = _table()
    for name in keys.unread():
        if name in harmless or name in declared or len(name) > 200 or not shaping.search(name):
            continue
        if not any(keys.raw(name) is off or keys.raw(name) == off for off in _OFF):
            raise KvcalcError(
                f"{keys.path(name)} may shape the cache, and kvcalc does not know it",
                hint="if it does not, delete it from the config; if it does, describe the model in a TOML card",
            )
