"""What a name in a tower's table means: a derived size, a key of its config, or a key of another part's config."""

from collections.abc import Mapping

from kvcalc.catalog.config.expression import Value, evaluate
from kvcalc.catalog.config.keys import Keys, shown
from kvcalc.errors import KvcalcError

LARGEST = 10**8  # of a key
MOST_ENTRIES = 1000  # of a list
LARGEST_SIZE = 10**12  # of what is computed from keys


class Scope:
    """The names of one config: `sizes` are derived, `aliases` other spellings, `others` the configs beside it."""

    def __init__(
        self,
        keys: Keys,
        sizes: Mapping[str, str] | None = None,
        aliases: Mapping[str, list[str]] | None = None,
        others: "Mapping[str, Scope] | None" = None,
    ) -> None:
        self.keys = keys
        self._sizes = sizes or {}
        self._aliases = aliases or {}
        self._others = others or {}

    def lookup(self, name: str) -> Value:
        """The value of a name; None where the config does not say it."""
        first, _, rest = name.partition(".")
        if rest and first in self._others:
            return self._others[first].lookup(rest)
        if name in self._sizes:
            return evaluate(self._sizes[name], self.lookup)
        if rest:
            nested = self.keys.child(first)
            return None if nested is None else Scope(nested).lookup(rest)
        return self._checked(name)

    def size(self, text: str) -> int:
        """A whole number of at least nought."""
        value = evaluate(text, self.lookup)
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if not whole or isinstance(value, bool) or not 0 <= value <= LARGEST_SIZE:  # type: ignore[operator]
            where = self.keys.path(text)
            raise KvcalcError(
                f"a size of a tower is missing or not a whole number: {where} is {shown(value)}",
                hint="add it to the config, or correct it there",
            )
        return int(value)  # type: ignore[arg-type]

    def holds(self, text: str) -> bool:
        """Whether a condition holds."""
        return bool(evaluate(text, self.lookup))

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
