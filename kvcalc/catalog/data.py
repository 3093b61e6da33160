"""Where the TOML files are: inside an installed wheel, or beside the package in a checkout."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.errors import KvcalcError

PACKAGE = Path(__file__).parents[1]


@cache
def data_dir(name: str) -> Path:
    """The directory `model_cards` or `gpu_specs`."""
    for place in (PACKAGE / "data" / name, PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise KvcalcError(f"{name}/ is missing from this installation", hint="reinstall kvcalc")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A TOML file as a dict, or a KvcalcError that says where it is wrong."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KvcalcError(f"{what}: cannot read {path}: {error}", hint="check the path and its permissions") from error
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise KvcalcError(f"{what}: {path} is not valid TOML: {error}", hint="fix the line named above") from error
