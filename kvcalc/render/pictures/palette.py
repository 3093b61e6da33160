"""The colours of pictures and pages: as they are in a file, or as variables that a page sets for light and dark."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

Colours = dict[str, str]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("palette.toml").read_text(encoding="utf-8"))


def colours(scheme: str = "light") -> Colours:
    """Every colour of a scheme by its name, for pictures that stand alone."""
    return dict(_table()[scheme])


def variables() -> Colours:
    """The same names, each the CSS variable that holds it."""
    return {name: f"var(--{name})" for name in _table()["light"]}


def roles() -> dict[str, list[str]]:
    """The names of the colours that text, marks and series take."""
    return dict(_table()["roles"])


def style_sheet() -> str:
    """The variables: light, and dark where the reader's system is."""
    light, dark = (_declared(colours(scheme)) for scheme in ("light", "dark"))
    return f":root{{color-scheme:light dark;{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"


def _declared(values: Colours) -> str:
    return "".join(f"--{name}:{value};" for name, value in values.items())
