"""Tables of the accuracy page, in Markdown."""

from collections.abc import Sequence
from typing import Any


def percent(value: float | None) -> str:
    """0.123 as 12 %; below 10 % with one decimal."""
    if value is None:
        return ""
    return f"{100 * value:.1f} %" if abs(value) < 0.1 else f"{100 * value:.0f} %"


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Markdown; all but the first column to the right."""
    lines = ["| " + " | ".join(head) + " |", "|---" + "|---:" * (len(head) - 1) + "|"]
    return ["", *lines, *("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows), ""]
