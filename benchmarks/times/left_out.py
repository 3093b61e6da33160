"""Predictions of end-to-end points by constants that were fitted without their cell."""

from collections.abc import Sequence
from typing import Any

from times.fit_engines import FITS, Tables, Whole, left_out
from times.known import shipped_tables
from times.points import Point, predict

from kvcalc.timing.engine_profiles import resolved


def constants_behind(points: Sequence[Point]) -> int:
    """How many constants that were fitted to end-to-end points enter these."""
    return sum(len(fit.constants) for fit in FITS if any(map(fit.chosen, points)))


def left_out_all(points: Sequence[Point], tables: Tables | None = None, whole: Whole = "cell") -> Any:
    """One prediction a point, by constants fitted without its cell, model or GPU.

    Points of no fit rest on kernels alone, which no end-to-end point has entered.
    """
    given = tables or shipped_tables()
    found = predict(points, resolved(given))
    for fit in FITS:
        places = [place for place, point in enumerate(points) if fit.chosen(point)]
        if places:
            found[places] = left_out(fit, [points[place] for place in places], given, whole)
    return found
