"""From a table of a user's file to a spec, checked by Pydantic: every field, however deep, and nothing else."""

from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from kvcalc.specs.base import Frozen

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

Spec = TypeVar("Spec", bound=Frozen)

UNKNOWN_FIELD = "unknown field"


class Mistake(Exception):
    """The first thing that is wrong in a file."""

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where  # the field, with dots where it is nested; "" for the whole
        self.why = why


def from_file(spec: type[Spec], table: dict[str, Any]) -> Spec:
    """The spec that a table describes.

    Raises:
        Mistake: a field that is wrong, missing or unknown; the first.
    """
    from pydantic import ValidationError

    try:
        reader: TypeAdapter[Spec] = _reader(cast(Any, spec))
        return reader.validate_python(table)
    except ValidationError as error:
        raise first_mistake(error) from None


@cache
def _reader(spec: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(spec)


def first_mistake(error: "ValidationError") -> Mistake:
    """The first field that is wrong, and what is wrong with it."""
    first = error.errors(include_url=False, include_input=False)[0]
    where = ".".join(str(part) for part in first["loc"])[:80]
    plain = {"extra_forbidden": UNKNOWN_FIELD, "unexpected_keyword_argument": UNKNOWN_FIELD, "missing": "missing"}
    said = str(first["msg"])[:200].removeprefix("Value error, ").replace("\n", " ")
    return Mistake(where, plain.get(first["type"], said))
