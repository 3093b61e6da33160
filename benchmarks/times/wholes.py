"""Errors of serving where a whole cell, a whole model or a whole GPU was left out of the fit, by engine and figure.

Where a model or a GPU that is left out errs far more than a cell, a constant carries what it should not.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from times.fit_engines import SERVED, Whole
from times.left_out import left_out_all
from times.points import Point

FIGURES = {"tpot": "TPOT", "ttft": "TTFT"}
Row = dict[str, Any]


def serving_errors(points: Sequence[Point], wholes: Sequence[Whole]) -> list[Row]:
    """Median |predicted / measured - 1| by engine, figure and sort of model, for each of what is left out."""
    served = [point for point in points if point.prepared.task in SERVED]
    measured = np.array([point.measured for point in served])
    errors = {whole: np.abs(left_out_all(served, whole=whole) / measured - 1) for whole in wholes}
    places = defaultdict(list)
    for place, point in enumerate(served):
        sort = "mixtures" if point.setting.routed else "dense"
        places[f"{point.case['engine']} {FIGURES[point.prepared.task]}, {sort}"].append(place)
    return [
        {"group": name, "points": len(some)} | {whole: float(np.median(one[some])) for whole, one in errors.items()}
        for name, some in sorted(places.items())
    ]
