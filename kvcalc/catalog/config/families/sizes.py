"""Sizes and switches of a family's table, looked up in its scope: see kvcalc/catalog/config/scope.py."""

from collections.abc import Mapping

from kvcalc.catalog.config.families.traits import Size, Switch, Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.scope import Scope

_NOTHING: Mapping[str, int] = {}


def scope(keys: Keys, traits: Traits, given: Mapping[str, int] = _NOTHING) -> Scope:
    """The names that a family's expressions may use; `given` are sizes that were worked out before."""
    return Scope(keys, traits.sizes, given)


def size(keys: Keys, traits: Traits, value: Size, given: Mapping[str, int] = _NOTHING) -> int:
    """A number of elements; nought where the key that it is made of is not there."""
    return value if isinstance(value, int) else scope(keys, traits, given).size(value, absent=0)


def switch(keys: Keys, traits: Traits, value: Switch, given: Mapping[str, int] = _NOTHING) -> bool:
    """Whether a trait is on."""
    return value if isinstance(value, bool) else scope(keys, traits, given).holds(value)
