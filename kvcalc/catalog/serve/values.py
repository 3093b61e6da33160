"""What stands behind a flag → the value of a setting, by the kind that the table names."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.units import parse_tokens

Value = str | bool
_OFF = ("false", "0", "off", "no")


def settings_of(setting: str, reads: str, text: str, typed: str, path: str = "") -> Iterator[tuple[str, Value]]:
    """The settings that one flag sets, with values as kvcalc's own flags take them.

    Args:
        setting: the table's name for it.
        reads: how the value is written.
        text: what stands behind the flag.
        typed: the flag as it was typed, for messages.
        path: of a dotted flag, what is behind the first dot.

    Raises KvcalcError where the value is not of its kind.

    >>> list(settings_of("kv_memory_bytes", "bytes", "25G", "--kv-cache-memory-bytes"))
    [('kv_memory_bytes', '26843545600B')]
    >>> list(settings_of("speculation", "object", '{"method": "mtp", "num_speculative_tokens": 1}', "-sc"))
    [('speculation.method', 'mtp'), ('speculation.num_speculative_tokens', '1')]
    """
    match reads:
        case "on":
            yield setting, text.lower() not in _OFF
        case "off":
            yield setting, text.lower() in _OFF
        case "bytes":
            yield setting, f"{parse_tokens(text, typed)}B"
        case "tokens" if text in ("auto", "-1"):
            yield setting, "auto"
        case "object" if path:
            yield f"{setting}.{path}", text
        case "object":
            yield from flattened(_object(text, typed), setting)
        case _:
            yield setting, text


def _object(text: str, typed: str) -> Mapping[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        hint = """quote it whole: '{"method": "mtp", "num_speculative_tokens": 1}'"""
        raise KvcalcError(f"--serve: {typed} {text[:60]!r} is no JSON object", hint=hint)
    return value


def flattened(value: Mapping[str, Any], name: str) -> Iterator[tuple[str, Value]]:
    """Nested mappings as dotted names.

    >>> list(flattened({"a": {"b": 1}, "c": True}, "x"))
    [('x.a.b', '1'), ('x.c', True)]
    """
    for key, inner in value.items():
        path = f"{name}.{key}" if name else str(key)
        if isinstance(inner, dict):
            yield from flattened(inner, path)
        elif inner is not None:
            yield path, inner if isinstance(inner, bool) else str(inner)
