"""Predictions of end-to-end points by constants that were fitted without their cell."""

import tomllib
from collections.abc import Sequence
from typing import Any

from times.fit_engines import FITS, Tables, left_out
from times.fit_llamacpp import left_out_llamacpp
from times.points import Point, predict

from kvcalc.timing.profile import FILE, resolved


def shipped_tables() -> Tables:
    return list(tomllib.loads(FILE.read_text(encoding="utf-8"))["profile"])


def left_out_all(points: Sequence[Point], tables: Tables | None = None) -> Any:
    """One prediction a point. Points of no fit rest on kernels alone, which no end-to-end point has entered."""
    given = tables or shipped_tables()
    found = predict(points, resolved(given))
    for fit in FITS:
        places = [place for place, point in enumerate(points) if fit.chosen(point)]
        if places:
            found[places] = left_out(fit, [points[place] for place in places], given)
    kernels = [place for place, point in enumerate(points) if point.profile == "llamacpp-2024"]
    if kernels:
        found[kernels] = left_out_llamacpp([points[place] for place in kernels], resolved(given))
    return found
