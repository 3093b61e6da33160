"""What every spec and every result shares: frozen values, sources, assumptions."""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields, replace
from types import NoneType, UnionType
from typing import Annotated, Any, ClassVar, Union, dataclass_transform, get_args, get_origin

from kvcalc.specs.constraints import Within

__all__ = [
    "Assumption",
    "Count",
    "Frozen",
    "OutOfRange",
    "Positive",
    "Sized",
    "Source",
    "field",
    "field_names",
    "replace",
]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(field,))
class Frozen:
    """A value: made by keyword, compared by content, never changed after it is made; `replace` gives a changed copy.

    Each subclass is a dataclass. What `@dataclass` would write for each of a hundred classes stands here once, for
    writing and compiling it is 1.5 ms a class: half of a cold start.

    >>> Assumption(name="price", value=2, why="given") == Assumption(name="price", value=2, why="given")
    True
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __pydantic_config__: ClassVar = {"extra": "forbid"}  # where a file of a user's is checked, and in JSON schemas
    _names: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _factories: ClassVar[dict[str, Callable[[], Any]]]
    _whole: ClassVar[frozenset[str]]  # the names again, to compare with
    _required: ClassVar[frozenset[str]]
    _floats: ClassVar[frozenset[str]]  # an int that is given for one becomes a float, so that all print alike

    def __init_subclass__(cls) -> None:
        dataclass(init=False, repr=False, eq=False, kw_only=True)(cls)
        found = fields(cls)
        cls._names = tuple(one.name for one in found)
        cls._whole = frozenset(cls._names)
        cls._defaults = {one.name: one.default for one in found if one.default is not MISSING}
        cls._factories = {one.name: one.default_factory for one in found if one.default_factory is not MISSING}
        cls._required = frozenset(cls._names) - cls._defaults.keys() - cls._factories.keys()
        cls._floats = frozenset(one.name for one in found if _is_float(one.type))

    def __init__(self, **values: Any) -> None:
        mine = self.__dict__
        mine.update(self._defaults)
        for name, make in self._factories.items():
            if name not in values:
                mine[name] = make()
        mine.update(values)
        if mine.keys() != self._whole:
            raise TypeError(self._misfit(values))
        for name in self._floats:
            if name in values and type(values[name]) is int:
                mine[name] = float(values[name])
        self.__post_init__()

    def __post_init__(self) -> None:
        """What a subclass has to say against its values."""

    @classmethod
    def _misfit(cls, given: dict[str, Any]) -> str:
        unknown, missing = sorted(given.keys() - cls._names), sorted(cls._required - given.keys())
        return f"{cls.__name__}: " + (f"no field {', '.join(unknown)}" if unknown else f"{', '.join(missing)} missing")

    def __setattr__(self, name: str, value: object) -> None:
        raise FrozenInstanceError(f"{type(self).__name__}.{name}: values are frozen; use replace()")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"{type(self).__name__}.{name}: values are frozen; use replace()")

    def __eq__(self, other: object) -> bool:
        return self.__dict__ == other.__dict__ if type(self) is type(other) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self._names)))

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self._names)
        return f"{type(self).__name__}({shown})"


def _is_float(annotation: Any) -> bool:
    if isinstance(annotation, UnionType) or get_origin(annotation) is Union:
        return all(one is NoneType or _is_float(one) for one in get_args(annotation))
    return annotation is float or (get_origin(annotation) is Annotated and _is_float(get_args(annotation)[0]))


class OutOfRange(ValueError):
    """A size that no model has: which class's, which field, and what is wrong with it."""


class Sized(Frozen):
    """A value of sizes, each checked: the keys of a config may be well, and what follows from them not."""

    _limits: ClassVar[tuple[tuple[str, Within], ...]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = ((one.name, _within(one.type)) for one in fields(cls))
        cls._limits = tuple((name, limits) for name, limits in found if limits is not None)

    def __post_init__(self) -> None:
        for name, limits in self._limits:
            value = getattr(self, name)
            for one in value if isinstance(value, tuple) else () if value is None else (value,):
                if said := limits.complaint(one):
                    raise OutOfRange(f"{type(self).__name__} {name}: {one} {said}")


def _within(annotation: Any) -> Within | None:
    """The limits of a number, of one that may be absent, or of each in a tuple."""
    marks = [mark for mark in getattr(annotation, "__metadata__", ()) if isinstance(mark, Within)]
    return next(iter(marks), None) or next(filter(None, map(_within, get_args(annotation))), None)


def field_names(kind: type[Frozen]) -> tuple[str, ...]:
    """The names of a class's fields, in their order.

    >>> field_names(Assumption)
    ('name', 'value', 'why')
    """
    return kind._names


class Source(Frozen):
    """Where a number came from, so that a reader can check it."""

    what: str  # the document: "NVIDIA H100 datasheet", "config.json at meta-llama/Llama-3.1-8B"
    url: str | None = None
    date: str | None = None  # when it was read, ISO 8601
    confidence: str = "high"  # high | medium | low
    note: str | None = None


class Assumption(Frozen):
    """Something that was not said and had to be taken: listed with every answer that rests on it."""

    name: str
    value: str | int | float | bool | None
    why: str


Count = Annotated[int, Within(ge=0, le=10**15)]
Positive = Annotated[int, Within(ge=1, le=10**15)]
