"""Whether constants that are made again equal those that are shipped: number by number, within a tolerance."""

import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TOLERANCE = 0.01  # of a number: three digits are kept, and a fit stops at 1e-5
SMALLEST = 1e-9  # seconds and shares below it are none
# How well a constant did, and when: they follow from the others.
NOT_COMPARED = ("evidence", "date", "error", "coverage")
NAMES = ("name", "kind", "dtype", "library", "kernel", "gpus", "graph")  # what a row of a list is known by


@contextmanager
def kept(paths: Sequence[Path]) -> Iterator[dict[Path, Any]]:
    """The files as they are, parsed; whatever is written to them inside is undone."""
    texts = {path: path.read_text(encoding="utf-8") for path in paths}
    try:
        yield {path: tomllib.loads(text) for path, text in texts.items()}
    finally:
        for path, text in texts.items():
            path.write_text(text, encoding="utf-8")


def differences(shipped: Any, made: Any, where: str = "") -> Iterator[str]:
    """What is not the same, with its place.

    >>> list(differences({"a": [{"name": "x", "s": 1.0}]}, {"a": [{"name": "x", "s": 1.005}]}))
    []
    >>> list(differences({"a": [{"name": "x", "s": 1.0}]}, {"a": [{"name": "x", "s": 1.2}]}))
    ['a x s: shipped 1.0, made 1.2']
    """
    if isinstance(shipped, dict) and isinstance(made, dict):
        for key in sorted(shipped.keys() | made.keys()):
            if key not in NOT_COMPARED:
                yield from differences(shipped.get(key), made.get(key), f"{where} {key}".strip())
    elif _rows(shipped) and _rows(made):
        yield from differences(_named(shipped), _named(made), where)
    elif _number(shipped) and _number(made):
        if abs(shipped - made) > max(TOLERANCE * abs(shipped), SMALLEST):
            yield f"{where}: shipped {shipped}, made {made}"
    elif shipped != made:
        yield f"{where}: shipped {shipped}, made {made}"


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _named(rows: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {" ".join(str(row[key]) for key in NAMES if key in row): row for row in rows}
