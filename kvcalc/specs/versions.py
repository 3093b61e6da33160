"""Versions of engines, compared here alone: rules and constants carry the first version that they hold for."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kvcalc.errors import KvcalcError

Version = tuple[int, int, int]
# What may follow the numbers: rc1, .post2, .dev3, +cu128, -rc.3. Not a second version, nor an x for any digit.
_VERSION = re.compile(
    r"\s*v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,4}))?(?:\.\d+)?"
    r"(?:[.+_-]?(?!x(?:\W|$)|\*)[a-z][\w.+-]*|\+[\w.+-]+)?\s*\Z",
    re.IGNORECASE | re.ASCII,
)


@cache
def parse_version(text: str) -> Version:
    """The first three numbers of a version; what follows (rc1, .dev3, +cu128) does not matter to any rule.

    >>> parse_version("0.10.2"), parse_version("v0.21"), parse_version("0.26.1rc1+g1234")
    ((0, 10, 2), (0, 21, 0), (0, 26, 1))
    """
    found = release(text)
    if found is None:
        raise KvcalcError(f"engine version {text[:40]!r} is not a version", hint=_hint(text))
    return found


def release(text: str) -> Version | None:
    """The same; None for what is compared with no version, as the number of a build of llama.cpp.

    >>> release("1.0.0rc3"), release("b5500")
    ((1, 0, 0), None)
    """
    match = _VERSION.match(text)
    if match is None:
        return None
    major, minor, patch = (int(part or 0) for part in match.groups())
    return (major, minor, patch)


def _hint(text: str) -> str:
    if re.match(r"v[01]\Z", text.strip(), re.IGNORECASE):
        return "V0 and V1 are generations of vLLM's engine: say which version, as 0.9.2 or 0.19"
    if re.search(r"\d\s*(?:-|–|to|\.\.)\s*v?\d", text):
        return "a range or a date: say one version, as 0.19 or 0.19.1"
    return "write it as 0.19 or 0.19.1"


def since(version: Version, first: str) -> bool:
    """Whether a rule that came with `first` holds for this version.

    >>> since(parse_version("0.21.1"), "0.21"), since((0, 9, 2), "0.10")
    (True, False)
    """
    return version >= parse_version(first)


def row_for(rows: Sequence[Mapping[str, Any]], version: Version, **match: object) -> Mapping[str, Any]:
    """The last row whose `from` is not above the version, among those that match."""
    fitting = [
        row
        for row in rows
        if since(version, row["from"]) and all(row.get(key) == value for key, value in match.items())
    ]
    return fitting[-1]
