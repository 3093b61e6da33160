"""Ranges from left-out residuals: where 80 % of measured times of unseen cells fall, as shares of the estimate.

1. A point weighs 1/√(points of its cell), so that a large cell does not set the range alone.
2. The weighted 10 % and 90 % quantiles of ln(measured / estimated) are the range,
3. widened by 1.15 about their middle, for few cells know their own quantiles badly.
Coverage is counted on cells that are left out of these steps as well.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

LOW, HIGH = 0.1, 0.9
WIDEN = 1.15


class Range(NamedTuple):
    low: float
    high: float
    points: int
    cells: int
    coverage: float


def fit_range(log_ratios: Any, cells: Sequence[Hashable]) -> Range:
    """The range of some left-out points, and its coverage on cells left out of it."""
    low, high = _quantiles(log_ratios, cells)
    inside = []
    for cell in sorted(set(cells), key=str):
        mine = np.array([one == cell for one in cells])
        if mine.all():
            continue
        kept = [one for one, is_mine in zip(cells, mine, strict=True) if not is_mine]
        left, right = _quantiles(log_ratios[~mine], kept)
        inside.extend((log_ratios[mine] >= left) & (log_ratios[mine] <= right))
    coverage = float(np.mean(inside)) if inside else float("nan")
    return Range(float(np.exp(low)), float(np.exp(high)), len(cells), len(set(cells)), coverage)


def _quantiles(log_ratios: Any, cells: Sequence[Hashable]) -> tuple[float, float]:
    sizes = Counter(cells)
    weight = np.array([sizes[cell] ** -0.5 for cell in cells])
    order = np.argsort(log_ratios)
    reached = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    low, high = np.interp([LOW, HIGH], reached, log_ratios[order])
    middle, half = (low + high) / 2, (high - low) / 2 * WIDEN
    return middle - half, middle + half
