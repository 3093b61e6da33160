"""Robust least squares: the one way in which constants are fitted here."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def robust_fit(
    residuals: Callable[[Any], Any],
    scale: Sequence[float],
    low: Sequence[float],
    high: Sequence[float],
    soft: float,
    factors: Sequence[float] = (0.3, 1.0, 3.0),
    precision: float = 1e-8,
) -> Any:
    """Constants that minimise a soft absolute error; the best of some starts.

    Args:
        residuals: of the constants, one for each measurement; here logarithms of predicted over measured.
        scale: what each constant usually is.
        low, high: bounds of each constant.
        soft: residuals above this count by their size and not by their square.
        factors: the starts, as multiples of `scale`.
        precision: relative change of the error below which it is enough.
    """
    from scipy.optimize import least_squares

    tries = [
        least_squares(
            residuals,
            np.clip(np.array(scale) * factor, low, high),
            bounds=(low, high),
            x_scale=scale,
            loss="soft_l1",
            f_scale=soft,
            ftol=precision,
        )
        for factor in factors
    ]
    return min(tries, key=lambda one: one.cost).x
