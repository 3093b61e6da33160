"""JSON from a stranger: bounded, an object; or a KvcalcError that says what is wrong with it.

Infinity and NaN pass, as Python's writer puts them: published configs have them (`time_step_limit`). Who reads a
number checks that it is finite.
"""

import json
from pathlib import Path
from typing import Any

from kvcalc.errors import KvcalcError, said_by
from kvcalc.units import MIB, format_bytes

# The largest real config.json is near 1 MiB (a mixed-precision list of every layer of a large model).
LARGEST_CONFIG_BYTES = 16 * MIB
DEEPEST = 64  # levels of nesting; real configs have four


def parse_json(data: bytes, what: str, largest: int = LARGEST_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in `data`; `what` names it in errors.

    Raises:
        KvcalcError: too large, too deep, not JSON, not an object.
    """
    if len(data) > largest:
        raise KvcalcError(f"{what} is {format_bytes(len(data))}: too large for a config", hint="is it the right file?")
    try:
        value = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:  # JSONDecodeError, UnicodeDecodeError, an integer of 5000 digits
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
        raise KvcalcError(f"{what} is not valid JSON: {reason}", hint="fetch it again, or fix it by hand") from error
    if not isinstance(value, dict):
        raise KvcalcError(f"{what} holds a {type(value).__name__}, not an object", hint="is it the right file?")
    if _depth_exceeds(value, DEEPEST):
        raise KvcalcError(f"{what} is nested more than {DEEPEST} levels deep", hint="is it the right file?")
    return value


def _depth_exceeds(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, dict) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def read_file(path: Path, what: str, largest: int = LARGEST_CONFIG_BYTES) -> bytes:
    """The bytes of a regular file of bounded size.

    Raises:
        KvcalcError: no regular file, too large, or not readable.
    """
    try:
        if not path.is_file():  # a directory, a pipe, a device
            raise KvcalcError(f"{what}: {path} is not a file", hint="give a folder, a config.json, a .gguf or a .toml")
        size = path.stat().st_size
        if size > largest:
            raise KvcalcError(
                f"{what}: {path} is {format_bytes(size)}: too large for a config", hint="is it the right file?"
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a null byte in the path
        raise KvcalcError(
            f"{what}: cannot read {path}: {said_by(error)}", hint="check the path and its permissions"
        ) from error


def read_json(path: Path, what: str, largest: int = LARGEST_CONFIG_BYTES) -> dict[str, Any]:
    """The JSON object in a file."""
    return parse_json(read_file(path, what, largest), str(path), largest)
