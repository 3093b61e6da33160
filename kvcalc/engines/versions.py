"""Engine versions: rules carry the versions they hold for."""

import re

from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment

Version = tuple[int, int, int]
# What may follow the numbers: rc1, .post2, .dev3, +cu128, -rc.3. Not a second version, nor an x for any digit.
_VERSION = re.compile(
    r"\s*v?(\d{1,3})\.(\d{1,4})(?:\.(\d{1,4}))?(?:\.\d+)?"
    r"(?:[.+_-]?(?!x(?:\W|$)|\*)[a-z][\w.+-]*|\+[\w.+-]+)?\s*\Z",
    re.IGNORECASE | re.ASCII,
)
_BUILD = re.compile(r"b?\d{1,9}\Z", re.IGNORECASE)  # llama.cpp counts its builds


def parse_version(text: str) -> Version:
    """The first three numbers of a version; what follows (rc1, .dev3, +cu128) does not matter to any rule.

    >>> parse_version("0.10.2"), parse_version("v0.21"), parse_version("0.26.1rc1+g1234")
    ((0, 10, 2), (0, 21, 0), (0, 26, 1))
    """
    match = _VERSION.match(text)
    if match is None:
        raise KvcalcError(f"engine version {text[:40]!r} is not a version", hint=_hint(text))
    major, minor, patch = (int(part or 0) for part in match.groups())
    return (major, minor, patch)


def _hint(text: str) -> str:
    if re.match(r"v[01]\Z", text.strip(), re.IGNORECASE):
        return "V0 and V1 are generations of vLLM's engine: say which version, as 0.9.2 or 0.19"
    if re.search(r"\d\s*(?:-|–|to|\.\.)\s*v?\d", text):
        return "a range or a date: say one version, as 0.19 or 0.19.1"
    return "write it as 0.19 or 0.19.1"


def check_version(deployment: Deployment) -> None:
    """Raise KvcalcError where the deployment's version is none that its engine can have."""
    text = deployment.engine_version
    if text is None or deployment.engine == "ideal":
        return
    if deployment.engine != "llamacpp":
        parse_version(text)
    elif not _BUILD.match(text.strip()):
        raise KvcalcError(f"llama.cpp build {text[:40]!r} is not a build", hint="write its number, as b5500")
