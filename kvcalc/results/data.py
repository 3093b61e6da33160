"""Values → what JSON and CSV can hold."""

from dataclasses import fields
from functools import cache
from typing import Any, cast, get_args

from kvcalc.specs.base import Frozen, field_names


def data_of(value: Any) -> Any:
    """Dicts, lists, text and numbers; a number of a field that is a float is one, also where it is whole.

    >>> from kvcalc.results.base import Range
    >>> data_of({"time_s": Range(value=2, low=1.5, high=3)})
    {'time_s': {'value': 2.0, 'low': 1.5, 'high': 3.0}}
    """
    return _plain(value, False)


def _plain(value: Any, floats: bool) -> Any:
    if type(value) is int and floats:
        return float(value)
    if isinstance(value, Frozen):
        of = _float_fields(cast(Any, type(value)))
        return {name: _plain(getattr(value, name), name in of) for name in field_names(type(value))}
    if isinstance(value, dict):
        return {name: _plain(one, floats) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, floats) for one in value]
    return value


def said_of(value: Any) -> Any:
    """The same without the fields that are what they are anyway: what a file has to say.

    >>> from kvcalc.specs.gpu import Link
    >>> said_of(Link(name="pcie", bandwidth_bytes_per_s=64e9, gpus=None))
    {'name': 'pcie', 'bandwidth_bytes_per_s': 64000000000.0}
    """
    if isinstance(value, Frozen):
        usual = {one.name: one.default for one in fields(value)}
        return {name: said_of(one) for name, one in vars(value).items() if one not in (usual[name], {})}
    if isinstance(value, dict):
        return {name: said_of(one) for name, one in value.items()}
    return [said_of(one) for one in value] if isinstance(value, tuple | list) else value


@cache
def _float_fields(kind: Any) -> frozenset[str]:
    """The fields whose numbers are floats, however deep they stand in tuples and tables."""
    return frozenset(one.name for one in fields(kind) if _numbers(one.type) == {float})


def _numbers(annotation: Any) -> set[type]:
    if annotation in (int, float):
        return {annotation}
    return {number for one in get_args(annotation) for number in _numbers(one)}
