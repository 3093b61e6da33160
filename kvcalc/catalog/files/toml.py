"""Where the TOML files are: inside an installed wheel, or beside the package in a checkout."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc.errors import KvcalcError, said_by

PACKAGE = Path(__file__).parents[2]
LARGEST_TOML = 1_000_000  # bytes; a card, a spec or a budget is a few thousand
DEEPEST_KEY = 100  # tables in tables; reading a key takes the square of them
_KEYS = re.compile(rb"^[^=,#\n]*", re.MULTILINE)


@cache
def data_dir(name: str) -> Path:
    """The directory `model_cards` or `gpu_specs`.

    Raises:
        KvcalcError: neither place has it.
    """
    for place in (PACKAGE / "data" / name, PACKAGE.parent / name):
        if place.is_dir():
            return place
    raise KvcalcError(f"{name}/ is missing from this installation", hint="reinstall kvcalc")


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """A TOML file as a dict, or a KvcalcError that says where it is wrong."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_TOML + 1)
    except (OSError, ValueError) as error:
        raise KvcalcError(
            f"{what}: cannot read {path}: {said_by(error)}", hint="check the path and its permissions"
        ) from error
    if len(data) > LARGEST_TOML:
        raise KvcalcError(f"{what}: {path} is larger than {LARGEST_TOML:,} bytes", hint="is this the file you meant?")
    if any(key.group().count(b".") > DEEPEST_KEY for key in _KEYS.finditer(data)):
        said = f"{what}: {path} has a key of more than {DEEPEST_KEY} parts"
        raise KvcalcError(said, hint="is this the file you meant?")
    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, or a number of thousands of digits
        raise KvcalcError(f"{what}: {path} is not valid TOML: {error}", hint="fix the line named above") from error
