"""Where calibrations are kept between commands, and whether one still holds."""

import json
import os
from datetime import datetime, timedelta
from pathlib import Path

from kvcalc import clock
from kvcalc.answers.device.calibration import spec_name, spec_of, toml_of
from kvcalc.errors import KvcalcError
from kvcalc.executor.device import Device
from kvcalc.results.calibrate import CalibrateResult
from kvcalc.results.data import data_of
from kvcalc.specs.base import replace
from kvcalc.specs.from_file import Mistake, from_file

FRESH = timedelta(hours=12)


def folder() -> Path:
    """The user's cache folder, `XDG_CACHE_HOME` as everywhere."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "kvcalc" / "devices"


def save(result: CalibrateResult, spec_file: Path | None = None) -> CalibrateResult:
    """Keep the calibration, and write it as a GPU spec.

    Args:
        spec_file: where the spec goes; None: beside the calibration.

    Raises:
        KvcalcError: a place that cannot be written.
    """
    spec = spec_of(result)
    path = spec_file or folder() / f"{spec.name}.toml"
    result = replace(result, spec_file=str(path))
    _write(path, toml_of(spec))
    _write(folder() / f"{spec.name}.json", json.dumps(data_of(result), indent=2, ensure_ascii=False) + "\n")
    return result


def load_fresh(device: Device) -> CalibrateResult | None:
    """The kept calibration of this device; None: there is none that is recent, quiet and of the same versions."""
    path = folder() / f"{spec_name(device.name)}.json"
    try:
        result = from_file(CalibrateResult, json.loads(path.read_bytes()))
        age = clock.now() - datetime.fromisoformat(result.date)
    except (OSError, Mistake, ValueError, TypeError):
        return None
    same = (result.device, result.kind, result.versions) == (device.name, device.kind, device.versions())
    return result if same and result.quiet and timedelta(0) <= age <= FRESH else None


def _write(path: Path, text: str) -> None:
    """All of it or nothing."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.{os.getpid()}")
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except OSError as error:
        raise KvcalcError(f"cannot write {path}: {error}", hint="--spec FILE writes elsewhere") from error
