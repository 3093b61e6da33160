"""Calibration: how much slower than predicted an engine was measured on one machine, term by term."""

from typing import Annotated

from kvcalc.specs.base import Count, Frozen
from kvcalc.specs.constraints import Within

Factor = Annotated[float, Within(gt=0, le=100)]


class Calibration(Frozen):
    """Factors on the estimate's terms: measured = factor · predicted. 1 where no measurement speaks of a term."""

    engine: str  # whose measurements these are; other engines are not touched
    decode: Factor = 1.0  # kernels of steps that decode
    prompt: Factor = 1.0  # kernels of prompts
    overhead: Factor = 1.0  # what the engine adds: scheduler, sampling, launches, front end
    measurements: Count = 0
    error: float | None = None  # median of |predicted / measured - 1| with the factors
    error_without: float | None = None
    source: str = ""  # the files
    date: str | None = None
    served: str = ""  # model, weights and layout that were measured
