"""What is compared: every combination of models, of repeated flags and of pasted commands."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

from kvcalc.answers.pasted import Pasted, pasted
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption

MOST_ROWS = 2000


class Case(NamedTuple):
    """One combination: `model` and fields as they were typed, and the command that said some of them."""

    flags: Mapping[str, Any]
    command: Pasted | None = None


class Cases(NamedTuple):
    """All of them, and what tells them apart."""

    rows: tuple[Case, ...]
    commands: tuple[Pasted, ...]  # one for each text that was pasted
    warnings: tuple[str, ...]

    @property
    def choices(self) -> dict[str, list[Any]]:
        """The values of each field, in the order in which they were given."""
        found: dict[str, dict[Any, None]] = {}
        for row in self.rows:
            for name, value in row.flags.items():
                found.setdefault(name, {})[value] = None
        return {name: list(values) for name, values in found.items()}

    @property
    def varying(self) -> tuple[str, ...]:
        """The fields of which the rows have different values; a command may leave to the engine what another sets."""
        many = {name for name, values in self.choices.items() if len(values) > 1}
        part = {name for name in self.choices if any(name not in row.flags for row in self.rows)}
        return tuple(name for name in self.choices if name in many | part)


def cases_of(models: Sequence[str], flags: Mapping[str, Any]) -> Cases:
    """The combinations that a question has.

    Args:
        models: given beside the commands, or none where these name them.
        flags: by field, one value or several; `serve` holds pasted commands.

    Raises KvcalcError where a command cannot be read, there are no models, or too many combinations.
    """
    left = {name: list(dict.fromkeys(value)) if isinstance(value, list) else [value] for name, value in flags.items()}
    texts = left.pop("serve", [])
    strict = any(left.pop("strict", []))
    named: Sequence[str | None] = list(dict.fromkeys(models)) or ([None] if texts else [])
    total = len(named) * max(1, len(texts))
    for values in left.values():
        total *= len(values)
    if total > MOST_ROWS:
        raise KvcalcError(f"{total:,} combinations are too many", hint=f"compare at most {MOST_ROWS:,} at once")
    if not named:
        raise KvcalcError("no model given", hint="name one, or paste a command with --serve")
    rows: dict[tuple[Any, ...], Case] = {}
    commands: list[Pasted] = []
    warnings: list[str] = []
    for number, text in enumerate(texts or [None], start=1):
        own = list(_rows(text, named, left, strict))
        if own[0].command is not None:
            commands.append(own[0].command)
        fresh = [row for row in own if _key(row) not in rows]
        if not fresh:
            warnings.append(f"--serve: command {number} says the same as one before it")
        rows |= {_key(row): row for row in fresh}
    return Cases(tuple(rows.values()), tuple(commands), tuple(warnings))


def _rows(
    text: str | None, models: Sequence[str | None], flags: Mapping[str, list[Any]], strict: bool
) -> Iterator[Case]:
    for model, *values in product(models, *flags.values()):
        one = dict(zip(flags, values, strict=True))
        if text is None:
            yield Case({"model": model, **one})
            continue
        command = pasted(text, one, model, strict)
        yield Case({"model": command.model, **command.flags}, command)


def _key(row: Case) -> tuple[Any, ...]:
    return tuple(sorted((name, str(value)) for name, value in row.flags.items()))


def said_by(commands: Sequence[Pasted]) -> tuple[Assumption, ...]:
    """What the reading of the commands assumed."""
    return tuple(dict.fromkeys(one for command in commands for one in command.assumptions))
