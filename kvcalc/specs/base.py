"""What every spec shares: frozen, strict about unknown keys, and with sources."""

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """A value: compared by content, never changed after it is made."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


Value = TypeVar("Value", bound=Frozen)


def replace(value: Value, /, **changes: Any) -> Value:
    """The same value with some fields changed.

    >>> replace(Assumption(name="price", value=2, why="given"), value=3).value
    3
    """
    return value.model_copy(update=changes)


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


Count = Annotated[int, Field(ge=0, le=10**15)]
Positive = Annotated[int, Field(ge=1, le=10**15)]
