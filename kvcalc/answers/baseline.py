"""An answer that was kept as JSON, to compare the present one with."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvcalc.catalog.files.jsonfile import read_json
from kvcalc.errors import KvcalcError
from kvcalc.results.base import schema_name
from kvcalc.results.changes import Change

LARGEST_BYTES = 64 << 20
SAME = 1e-9  # relative: what another Python adds up otherwise


def kept(path: str, command: str) -> dict[str, Any]:
    """The `result` of a file that `--json` wrote.

    Raises:
        KvcalcError: it cannot be read, or is no answer of this command and this meaning.
    """
    data = read_json(Path(path), "baseline", LARGEST_BYTES)
    wanted, found = schema_name(command), data.get("schema")
    result = data.get("result")
    if found != wanted or not isinstance(result, dict):
        said = f"its schema is {str(found)[:40]!r}" if found != wanted else "it has no result"
        hint = f"write one with `kvcalc {command} ... --json -o {path}`"
        raise KvcalcError(f"--baseline: {path} is no {wanted}: {said}", hint=hint)
    return result


def differs(before: object, after: object) -> bool:
    """Whether a figure has changed by more than rounding.

    >>> differs(0.1 + 0.2, 0.3), differs(1.0, 1.001), differs(True, None)
    (False, True, True)
    """
    if isinstance(before, bool) or isinstance(after, bool):
        return before is not after
    if isinstance(before, int | float) and isinstance(after, int | float):
        return abs(before - after) > SAME * max(abs(before), abs(after))
    return before != after


def came_and_went(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """What stands in one of two answers only."""
    new = [Change(mark="+", of=name) for name in after if name not in before]
    return [*new, *(Change(mark="-", of=name) for name in before if name not in after)]
