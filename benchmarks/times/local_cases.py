"""llama.cpp's cases of `perf_cases/`, answered as its commands answer them; times/local_points.py says how."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from times.local_points import LocalPoint, point_of, row_of_case

from kvcalc.errors import KvcalcError
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, alone_time
from kvcalc.timing.ranges import range_around

PREFIX = "llamacpp_"


class LocalAnswer(NamedTuple):
    """Tokens/s of a case, the range's kind, and the point behind it; or why there is none."""

    point: LocalPoint | None = None
    kind: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def seconds_of(point: LocalPoint) -> Estimate:
    """Seconds of the test: a decode step, or a prompt alone, as the commands have them."""
    if point.decodes:
        found = Pass(point.replica, point.steps[0][1]).estimate
        assert found is not None
        return found
    depth = point.row.get("depth") or 0
    return alone_time(point.replica, Requests(depth + point.row["n"], 1, prefix_hit=depth))


def answer_case(case: dict[str, Any]) -> LocalAnswer:
    """What kvcalc says to one case."""
    try:
        point = point_of(row_of_case(case), Path())
        seconds = seconds_of(point)
    except (KvcalcError, KeyError) as error:
        return LocalAnswer(reason=str(error) or type(error).__name__)
    tokens = point.row["tokens_per_s"] * point.measured_s
    kind = range_around(point.replica.machine, point.replica.routed, "decode" if point.decodes else "prompt").kind
    return LocalAnswer(point, kind, tokens / seconds.value, tokens / seconds.high, tokens / seconds.low)


def left_out_cases(answers: Sequence[LocalAnswer]) -> list[float | None]:
    """Tokens/s by constants that were fitted to the other cells (model x device) of these cases alone."""
    from times.refit_local import left_out_cells

    points = [one.point for one in answers if one.point is not None]
    found = iter(left_out_cells(points))
    return [
        None if one.point is None else one.point.row["tokens_per_s"] * one.point.measured_s / next(found)
        for one in answers
    ]
