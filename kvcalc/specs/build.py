"""From the plain tables of kvcalc's own files to values. They are trusted: the tests check each of them strictly."""

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from kvcalc.specs.base import Frozen

Value = TypeVar("Value", bound=Frozen)


def build(kind: type[Value], table: dict[str, Any]) -> Value:
    """The value that a table describes; nested tables become values too.

    Raises:
        TypeError: a field that the class does not have, or one that it lacks.

    >>> from kvcalc.specs.gpu import Link
    >>> build(Link, {"name": "pcie", "bandwidth_bytes_per_s": 64e9}).gpus
    """
    types = _types(cast(Any, kind))
    return kind(**{name: _built(types.get(name, Any), value) for name, value in table.items()})


@cache
def _types(kind: Any) -> dict[str, Any]:
    return {one.name: one.type for one in fields(kind)}


def _built(kind: Any, value: Any) -> Any:
    origin = get_origin(kind)
    if origin is Annotated:
        return _built(get_args(kind)[0], value)
    if origin in (UnionType, Union):
        return _one_of([one for one in get_args(kind) if one is not NoneType], value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, list | tuple):
        return tuple(_built(_item(kind, origin), one) for one in value) if origin is tuple else value
    if isinstance(value, dict):
        if is_dataclass(kind):
            return build(cast(type[Frozen], kind), value)
        return {key: _built(get_args(kind)[1], one) for key, one in value.items()} if origin is dict else value
    return value


def _item(kind: Any, origin: Any) -> Any:
    """The type of every entry of a tuple, where it is one: a pair of two types stays as it is."""
    entries = get_args(kind)
    return entries[0] if len(set(entries) - {Ellipsis}) == 1 else Any


def _one_of(kinds: list[Any], value: Any) -> Any:
    """Of several classes the one whose `kind` the table says; of int and float what the value is."""
    if value is None or len(kinds) == 1:
        return value if value is None else _built(kinds[0], value)
    if isinstance(value, dict):
        for one in kinds:
            tag = _types(cast(Any, one)).get("kind") if is_dataclass(one) else None
            if get_origin(tag) is Literal and value.get("kind", get_args(tag)[0]) == get_args(tag)[0]:
                return build(one, value)
    return value
