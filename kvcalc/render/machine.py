"""Report → CSV: plain numbers in base units. JSON is what the report itself says (`Report.to_json`)."""

import csv
import io
import math
from typing import Any

from kvcalc.render.printable import cell


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
