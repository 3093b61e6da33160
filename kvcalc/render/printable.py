"""Text that others wrote (names, logs, budgets, arguments) as a terminal, a spreadsheet or a workflow may see it."""

import json
import re
from typing import TypeVar

from kvcalc.results.data import UNSEEN

_PLAIN = str.maketrans({
    "×": "x", "–": "-", "—": "-", "−": "-", "·": "-", "…": "...", "→": "->", "≤": "<=", "≥": ">=", "γ": "gamma",
    "█": "#", "’": "'", "“": '"', "”": '"', "±": "+/-", "√": "sqrt", "Σ": "sum", "²": "^2", "³": "^3",
})  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Part = TypeVar("Part")


def printable(text: str) -> str:
    """Controls as their escapes, so that nothing quoted can move a cursor, set a title or answer for the user.

    >>> printable("a\\x1b]0;title\\x07b")
    'a\\\\x1b]0;title\\\\x07b'
    """
    return UNSEEN.sub(lambda match: _escape(match[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\x{code & 0xFF:02x}" if code < 0x100 or 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def printed(value: Part) -> Part:
    """The same page, block or row with every text in it printable."""
    if isinstance(value, str):
        return printable(value)  # type: ignore[return-value]
    if isinstance(value, tuple):
        parts = [printed(one) for one in value]
        return value._make(parts) if hasattr(value, "_make") else tuple(parts)  # type: ignore[return-value]
    return value


def cell(value: object) -> object:
    """A value of CSV: text that a spreadsheet would run as a formula is quoted, as spreadsheets do it.

    >>> cell("=HYPERLINK(1)"), cell("h100-sxm"), cell(-1.5)
    ("'=HYPERLINK(1)", 'h100-sxm', -1.5)
    """
    if not isinstance(value, str):
        return value
    return printable(f"'{value}" if value.startswith(_FORMULA) else value)


def encodable(text: str, encoding: str, is_json: bool = False) -> str:
    """The text as far as an encoding can say it: JSON by its own escapes, the rest by the nearest plain characters.

    JSON is UTF-8: where the output is not, none but ASCII is written.

    >>> encodable("2 × 80 GB", "ascii"), encodable('{"a": "×"}', "ascii", is_json=True)
    ('2 x 80 GB', '{"a": "\\\\u00d7"}')
    """
    if is_json:
        utf8 = encoding.lower().replace("-", "").startswith("utf8")
        return text if utf8 else re.sub(r"[^\x00-\x7f]", lambda match: json.dumps(match[0])[1:-1], text)
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_PLAIN).encode(encoding, "replace").decode(encoding)
    return text
