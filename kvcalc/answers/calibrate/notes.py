"""What a calibration does not say, and what speaks against it."""

from collections.abc import Iterator

from kvcalc.answers.calibrate.fit import TERMS
from kvcalc.specs.base import Assumption
from kvcalc.specs.calibration import Calibration

FAR = 1.6  # a judgement: above what versions and machines of one kind differ by
POOR = 0.15  # a judgement: an error above which factors describe little


def kept(factors: Calibration) -> Iterator[Assumption]:
    """Terms that stay as they are, and why."""
    why = "no measurement tells it from the other terms, or needs it: runs with one client and with many would"
    for term in TERMS:
        if getattr(factors, term) == 1:
            yield Assumption(name=f"factor of {term}", value=1.0, why=why)


def doubts(factors: Calibration) -> Iterator[str]:
    """Factors that a flag, a model or a GPU that was said wrong would explain better than the machine."""
    for term in TERMS:
        factor = getattr(factors, term)
        if not 1 / FAR <= factor <= FAR:
            yield f"{term} × {factor:.3g} is far from 1: were model, GPU and flags those that were measured?"
    assert factors.error is not None
    if factors.error > POOR:
        yield f"with the factors half of the measurements are still off by {factors.error:.0%} and more"
