"""Values → what JSON and CSV can hold."""

import json
import math
import re
from dataclasses import fields
from functools import cache
from typing import Any, cast, get_args

from kvcalc import __version__
from kvcalc.results.base import Report, schema_name
from kvcalc.specs.base import Frozen, field_names

# C0 and C1 controls but the line break, what turns the direction of writing, and halves of characters.
UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def envelope(report: Report, explain: bool = False) -> dict[str, Any]:
    """The form that the JSON of every command has."""
    data = data_of(report)
    found: dict[str, Any] = {
        "schema": schema_name(report.command),
        "kvcalc": __version__,
        "inputs": data["inputs"],
        "result": data["result"],
        "assumptions": [{**one, "value": _finite(one["value"])} for one in data["assumptions"]],
        "sources": data["sources"],
    }
    if data["warnings"]:
        found["warnings"] = data["warnings"]
    if explain:
        found["figures"] = data["figures"]
    return found


def _finite(value: Any) -> Any:
    """A config may have Infinity where nothing understands it: JSON has it as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def json_text(data: dict[str, Any]) -> str:
    """An envelope as JSON; what a terminal would act on is escaped, and says the same."""
    return escaped(json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def escaped(text: str) -> str:
    """JSON or TOML with what they let stand as it is escaped too; it says the same."""
    return UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def data_of(value: Any) -> Any:
    """Dicts, lists, text and numbers; a number of a field that is a float is one, also where it is whole.

    >>> from kvcalc.results.base import Range
    >>> data_of({"time_s": Range(value=2, low=1.5, high=3)})
    {'time_s': {'value': 2.0, 'low': 1.5, 'high': 3.0}}
    """
    return _plain(value, False)


def _plain(value: Any, floats: bool) -> Any:
    if type(value) is int and floats:
        return float(value)
    if isinstance(value, Frozen):
        of = _float_fields(cast(Any, type(value)))
        return {name: _plain(getattr(value, name), name in of) for name in field_names(type(value))}
    if isinstance(value, dict):
        return {name: _plain(one, floats) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one, floats) for one in value]
    return value


def said_of(value: Any) -> Any:
    """The same without the fields that are what they are anyway: what a file has to say.

    >>> from kvcalc.specs.gpu import Link
    >>> said_of(Link(name="pcie", bandwidth_bytes_per_s=64e9, gpus=None))
    {'name': 'pcie', 'bandwidth_bytes_per_s': 64000000000.0}
    """
    if isinstance(value, Frozen):
        usual = {one.name: one.default for one in fields(value)}
        return {name: said_of(one) for name, one in vars(value).items() if one not in (usual[name], {})}
    if isinstance(value, dict):
        return {name: said_of(one) for name, one in value.items()}
    return [said_of(one) for one in value] if isinstance(value, tuple | list) else value


@cache
def _float_fields(kind: Any) -> frozenset[str]:
    """The fields whose numbers are floats, however deep they stand in tuples and tables."""
    return frozenset(one.name for one in fields(kind) if _numbers(one.type) == {float})


def _numbers(annotation: Any) -> set[type]:
    if annotation in (int, float):
        return {annotation}
    return {number for one in get_args(annotation) for number in _numbers(one)}
