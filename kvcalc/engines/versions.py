"""Engine versions: rules carry the versions they hold for."""

import re

from kvcalc.errors import KvcalcError

Version = tuple[int, int, int]
_VERSION = re.compile(r"\s*v?(\d{1,4})(?:\.(\d{1,4}))?(?:\.(\d{1,4}))?")


def parse_version(text: str) -> Version:
    """The first three numbers of a version; what follows (rc1, .dev3, +cu128) does not matter to any rule.

    >>> parse_version("0.10.2"), parse_version("v0.21"), parse_version("0.26.1rc1+g1234")
    ((0, 10, 2), (0, 21, 0), (0, 26, 1))
    """
    match = _VERSION.match(text)
    if match is None:
        raise KvcalcError(f"engine version {text[:40]!r} is not a version", hint="write it as 0.19 or 0.19.1")
    major, minor, patch = (int(part or 0) for part in match.groups())
    return (major, minor, patch)
