"""Report → JSON and CSV: plain numbers in base units."""

import csv
import io
import json
import math
from typing import Any

from kvcalc import __version__
from kvcalc.render.printable import cell, of_json
from kvcalc.results.base import Report, schema_name
from kvcalc.results.data import data_of


def to_json(report: Report, command: str, explain: bool = False) -> str:
    """The envelope of every command. NaN and Infinity cannot occur: they are refused here."""
    data = data_of(report)
    envelope: dict[str, Any] = {
        "schema": schema_name(command),
        "kvcalc": __version__,
        "inputs": data["inputs"],
        "result": data["result"],
        "assumptions": data["assumptions"],
        "sources": data["sources"],
    }
    if data["warnings"]:
        envelope["warnings"] = data["warnings"]
    if explain:
        envelope["figures"] = data["figures"]
    return of_json(json.dumps(envelope, indent=2, ensure_ascii=False, allow_nan=False)) + "\n"


def to_csv(rows: list[dict[str, Any]]) -> str:
    """One header line, one line a row; nested values become dotted columns."""
    flat = [_flatten(row) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return out.getvalue()


def _flatten(value: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, item in value.items():
        if isinstance(item, dict):
            flat |= _flatten(item, f"{prefix}{name}.")
        elif not isinstance(item, list | tuple):
            flat[prefix + name] = "" if isinstance(item, float) and not math.isfinite(item) else cell(item)
    return flat
