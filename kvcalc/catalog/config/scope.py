"""What a name in a table means. docs/reference/expressions.md lists the same.

In this order: a size that was worked out (`given`: "hidden", "heads"), a config beside this one (`vision.hidden_size`),
a size that the table names (`sizes.merged = "..."`), a key of a nested object, a key of the config.
"""

import ast
from collections.abc import Mapping

from kvcalc.catalog.config.expression import Value, evaluate, written
from kvcalc.catalog.config.keys import Keys, shown
from kvcalc.errors import KvcalcError

LARGEST = 10**8  # of a key
MOST_ENTRIES = 10_000  # of a list
LARGEST_SIZE = 10**15  # of what is computed from keys
_NOTHING: Mapping[str, int] = {}


class Scope:
    """The names that the expressions of one table may use."""

    def __init__(
        self,
        keys: Keys,
        sizes: Mapping[str, str] | None = None,
        given: Mapping[str, int] = _NOTHING,
        aliases: Mapping[str, list[str]] | None = None,
        others: "Mapping[str, Scope] | None" = None,
    ) -> None:
        self.keys = keys
        self._given = given
        self._sizes = sizes or {}
        self._aliases = aliases or {}
        self._others = others or {}

    def lookup(self, name: str) -> Value:
        """The value of a name; None where the config does not say it."""
        if name in self._given:
            return self._given[name]
        first, _, rest = name.partition(".")
        if rest and first in self._others:
            return self._others[first].lookup(rest)
        if name in self._sizes:
            return evaluate(self._sizes[name], self.lookup)
        if rest:
            nested = self.keys.child(first)
            return None if nested is None else Scope(nested).lookup(rest)
        return self._checked(name)

    def size(self, expression: int | str | ast.expr, absent: int | None = None) -> int:
        """A whole number of at least nought; `absent` where the expression comes to None, if that is given.

        Raises:
            KvcalcError: it comes to nothing, or to something else.
        """
        if isinstance(expression, int):
            return expression
        value = evaluate(expression, self.lookup)
        if value is None and absent is not None:
            return absent
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole or isinstance(value, bool) or not 0 <= value <= LARGEST_SIZE:  # type: ignore[operator]
            raise KvcalcError(
                f"{self.keys.path(self._spelled(expression))} does not come to a size: it is {shown(value)}",
                hint="add the keys that it is made of to the config, or correct them there",
            )
        return int(value)  # type: ignore[arg-type]

    def at_least_one(self, expression: int | str | ast.expr, name: str) -> int:
        """A size of the tensor `name`, which has something along every side."""
        size = self.size(expression, absent=0)
        if size < 1:
            key = self.keys.path(self._spelled(expression))
            raise KvcalcError(f"the config does not say {key}, a size of {name}", hint="add it to the config")
        return size

    def holds(self, expression: bool | str | ast.expr) -> bool:
        """Whether a condition holds; a key that is absent or null does not."""
        return expression if isinstance(expression, bool) else bool(evaluate(expression, self.lookup))

    def _spelled(self, expression: int | str | ast.expr) -> str:
        """An expression for a message: a named size by what it is made of."""
        text = str(expression) if isinstance(expression, int) else written(expression)
        return self._sizes.get(text, text)

    def _checked(self, name: str) -> Value:
        names = (name, *self._aliases.get(name, ()))
        value = self.keys.raw(*names)
        if value is None or isinstance(value, bool | str):
            return value
        if isinstance(value, int | float):
            if -LARGEST <= value <= LARGEST:
                return value
        elif isinstance(value, list) and len(value) <= MOST_ENTRIES and all(map(_bounded, value)):
            return list(value)
        raise self.keys.error(names, value, f"a number of at most {LARGEST}, or a list of such")


def _bounded(entry: object) -> bool:
    return not isinstance(entry, int | float) or abs(entry) <= LARGEST
