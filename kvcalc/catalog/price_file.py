"""A user's own prices, in a TOML file: what a contract says, or what today's list says."""

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from kvcalc import clock
from kvcalc.catalog.files.toml import read_toml
from kvcalc.catalog.spellings import spelling
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Frozen, field
from kvcalc.specs.dates import PartialDate
from kvcalc.specs.from_file import Mistake, from_file
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.price import Price, Usd


class PriceFile(Frozen):
    """Prices by name, in any spelling; a machine's is of the whole machine."""

    date: PartialDate | None = None
    source: str | None = None
    usd_per_gpu_hour: dict[str, Usd] = field(default_factory=dict)
    usd_per_instance_hour: dict[str, Usd] = field(default_factory=dict)


def price_in(path: str, gpu: GpuSpec) -> Price | None:
    """What a price file says of an accelerator or its machine; None: it has neither.

    The machine's own price comes first, then the accelerator's.

    Raises:
        KvcalcError: the file cannot be read, or a field is wrong.
    """
    prices = read_prices(path)
    machine = gpu.instance
    usd = None
    if machine is not None:
        whole = _named(prices.usd_per_instance_hour, machine.name)
        usd = None if whole is None else whole / machine.gpus
    if usd is None:
        usd = _named(prices.usd_per_gpu_hour, gpu.name)
    if usd is None:
        return None
    dated = prices.date or clock.today().isoformat()
    source = f"{prices.source} in {path}" if prices.source else path
    return Price(low_usd_per_hour=usd, median_usd_per_hour=usd, high_usd_per_hour=usd, date=dated, source=source)


def read_prices(path: str) -> PriceFile:
    """A price file.

    Raises:
        KvcalcError: it cannot be read, or the first field that is wrong.
    """
    values = {key: _as_text(value) for key, value in _table(Path(path)).items()}
    try:
        return from_file(PriceFile, values)
    except Mistake as error:
        raise KvcalcError(
            f"price file {path}: {error.where or 'the file'}: {error.why}",
            hint="its tables are usd_per_gpu_hour and usd_per_instance_hour: a name and a number a line",
        ) from error


def _table(path: Path) -> dict[str, Any]:
    """The file's content, read once for all the deployments of a comparison; again when it has changed."""
    try:
        stat = path.stat()
    except (OSError, ValueError):
        return read_toml(path, "price file")  # which says why not
    return _content(path, stat.st_mtime_ns, stat.st_size)


@cache
def _content(path: Path, changed_ns: int, size: int) -> dict[str, Any]:
    del changed_ns, size  # they stand for the content
    return read_toml(path, "price file")


def _as_text(value: object) -> object:
    return value.isoformat() if isinstance(value, date) else value


def _named(prices: dict[str, float], name: str) -> float | None:
    wanted = spelling(name)
    return next((usd for key, usd in prices.items() if spelling(key) == wanted), None)
