"""Sizes and switches that are up to the config, as the family tables write them.

Names are sizes of the layer ("hidden", "heads", "q_width" ...) or keys of the config. A key that is absent or null is
off, and no number: "a or b" goes on to b, "use_qk_norm != False" is on unless the config says false.
"""

from collections.abc import Mapping

from kvcalc.catalog.config.expression import Value, evaluate
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

_EMPTY: Mapping[str, int] = {}
_LARGEST = 10**15


def switch(keys: Keys, value: bool | str, scope: Mapping[str, int] = _EMPTY) -> bool:
    """Whether a trait is on."""
    return value if isinstance(value, bool) else bool(evaluate(value, lambda name: _value(keys, name, scope)))


def size(keys: Keys, value: int | str, scope: Mapping[str, int] = _EMPTY) -> int:
    """A number of elements; nought where the one key it is made of is not there."""
    if isinstance(value, int):
        return value
    found = evaluate(value, lambda name: _value(keys, name, scope))
    if found is None:
        return 0
    if not isinstance(found, int) or not -_LARGEST < found < _LARGEST:
        raise KvcalcError(f"{value} does not come to a size", hint="correct the keys of the config it is made of")
    return int(found)


def _value(keys: Keys, name: str, scope: Mapping[str, int]) -> Value:
    if name in scope:
        return scope[name]
    value = keys.raw(name)
    if value is None or isinstance(value, bool | str | list):
        return value
    return keys.count(name)
