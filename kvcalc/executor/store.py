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
    return Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / "kvcalc" / "devices"


def why_not_kept() -> str | None:
    """Why nothing can be kept in the cache folder, as in a read-only home; None: it can. Known before any work."""
    try:
        folder().mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError) as error:  # RuntimeError: a user without a home
        return f"{getattr(error, 'strerror', None) or error}"
    return None if os.access(folder(), os.W_OK | os.X_OK) else "it cannot be written"


def require_place(spec_file: Path | None) -> None:
    """Before minutes of measuring: can the spec go anywhere?

    Raises:
        KvcalcError: no file was named, and the user's cache folder cannot be written.
    """
    if spec_file is None and (why := why_not_kept()) is not None:
        where = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
        hint = "--spec FILE writes the spec elsewhere, and XDG_CACHE_HOME names another folder"
        raise KvcalcError(f"no calibration can be kept under {where}: {why}", hint=hint)


def save(result: CalibrateResult, spec_file: Path | None = None) -> CalibrateResult:
    """Keep the calibration for later commands where there is a place, and write it as a GPU spec.

    Args:
        spec_file: where the spec goes; None: beside the calibration.

    Raises:
        KvcalcError: a place that cannot be written.
    """
    spec = spec_of(result)
    kept = why_not_kept() is None
    path = spec_file or (folder() / f"{spec.name}.toml" if kept else None)
    result = replace(result, spec_file=None if path is None else str(path))
    if path is not None:
        _write(path, toml_of(spec))
    if not kept:
        return result
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
