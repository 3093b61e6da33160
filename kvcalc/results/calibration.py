"""The answer to `kvcalc calibrate --from`: factors on kvcalc's terms, and what each measurement says."""

from typing import ClassVar

from kvcalc.results.base import Report
from kvcalc.specs.base import Frozen


class Compared(Frozen):
    """One measured number, beside what kvcalc says with the factors and without."""

    name: str
    measured_s: float
    predicted_s: float
    calibrated_s: float


class CalibrationResult(Frozen):
    model: str
    gpu: str
    engine: str
    decode: float
    prompt: float
    overhead: float
    error: float  # median of |predicted / measured - 1| with the factors
    error_without: float
    measurements: tuple[Compared, ...]
    spec_file: str | None = None  # a GPU spec that carries the factors


class CalibrationReport(Report):
    command: ClassVar[str] = "calibrate"
    result: CalibrationResult
