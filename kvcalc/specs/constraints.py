"""What a field's annotation may say beside its type: limits, how text is read, which of several classes is meant.

Flags are read by them as they are (`specs.checked`). A file of a user's is checked by Pydantic, which is told of them
when it is first needed: importing it takes longer than most answers.
"""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple


class Within(NamedTuple):
    """Limits of a number."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None

    def complaint(self, value: float) -> str | None:
        """What is wrong with a value, after its name.

        >>> Within(ge=1, le=4096).complaint(5000)
        'is above 4,096'
        """
        if self.ge is not None and not value >= self.ge:
            return f"is below {self.ge:,}"
        if self.gt is not None and not value > self.gt:
            return f"must be above {self.gt:,}"
        if self.le is not None and not value <= self.le:
            return f"is above {self.le:,}"
        return None

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:
        from pydantic import Field

        limits = {name: limit for name, limit in self._asdict().items() if limit is not None}
        return handler(Annotated[kind, Field(**limits)])


class FromText(NamedTuple):
    """How a field is read where it comes as text; `what` names it in errors."""

    parse: Callable[[str, str], Any]
    what: str
    example: str = ""  # where nothing but text will do: a number has no unit

    def read(self, value: Any) -> Any:
        """The value, with each text in it read."""
        if isinstance(value, list | tuple):
            return tuple(self.read(one) for one in value)
        if isinstance(value, str):
            return self.parse(value, self.what)
        if self.example and isinstance(value, int | float):
            raise ValueError(f'{value} has no unit; write "{self.example}"')
        return value


class Checked(NamedTuple):
    """A function that returns a value as it should be, or raises ValueError."""

    check: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:
        from pydantic import AfterValidator

        return handler(Annotated[kind, AfterValidator(self.check)])


class Tagged(NamedTuple):
    """Of several classes, the one whose field of this name has the value that is there."""

    field: str

    def __get_pydantic_core_schema__(self, kind: Any, handler: Any) -> Any:
        from pydantic import Field

        return handler(Annotated[kind, Field(discriminator=self.field)])
