"""Fit engine constants to end-to-end points whose kernels are priced already; leave out whole cells to see the error.

A cell is a model on a GPU under an engine. Every point counts alike: weights by the size of the cell made left-out
errors larger, for the small cells are the odd ones. Constants of today's serving are drawn to their starts, round first
guesses, as if by a few points: what hundreds of points say does not move, and one that only a handful can tell (a
version's, of which one model was measured) stays where it is plausible when they are left out.
"""

from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple

import numpy as np
from times.least import robust_fit
from times.points import Point, predict_stacked, stack

from kvcalc.timing.engine_profiles import resolved

SOFT = 0.1  # residuals above 10 % count by their size, not by their square
SCALES = {"tpot": 0.05, "ttft": 0.15}  # the same where tasks that err differently are fitted together
SERVED = tuple(SCALES)
PRECISION = 1e-5
PULL = 2.0  # to a start: a constant off by a factor of e costs as much as PULL² points that are off by SOFT
FLOOR = 0.1  # of a start, where logarithms end

Tables = list[dict[str, Any]]
Whole = Literal["cell", "model", "gpu"]  # what is left out as one


class Constant(NamedTuple):
    """A field of a profile that is fitted, with its start and its bounds."""

    profile: str
    field: str
    start: float
    most: float
    least: float = 0.0


class Fit(NamedTuple):
    """Constants that one set of points decides."""

    name: str
    chosen: Callable[[Point], bool]
    constants: tuple[Constant, ...]
    pull: float = 0.0  # to the starts


def _profile(*names: str) -> Callable[[Point], bool]:
    return lambda point: point.profile in names


def _steps(profile: str) -> tuple[Constant, ...]:
    return (
        Constant(profile, "step_s", 1e-3, 0.05),
        Constant(profile, "layer_s", 5e-5, 1e-3),
        Constant(profile, "sequence_s", 3e-5, 1e-3),
        Constant(profile, "busy_factor", 1.0, 40.0, 0.1),
    )


def _offline(profile: str) -> tuple[Constant, ...]:
    return (
        Constant(profile, "step_s", 3e-3, 0.05),
        Constant(profile, "busy_factor", 1.0, 4.0, 0.1),
        Constant(profile, "link_factor", 1.3, 4.0, 0.1),
    )


def _task(task: str, *profiles: str) -> Callable[[Point], bool]:
    return lambda point: point.prepared.task == task and (not profiles or point.profile in profiles)


def _dense_static(profile: str) -> Callable[[Point], bool]:
    return lambda point: point.prepared.task == "static" and point.profile == profile and not point.setting.routed


def _static_of(engine: str, *profiles: str) -> Callable[[Point], bool]:
    chosen = _task("static", *profiles)
    return lambda point: chosen(point) and point.case["engine"] == engine


FITS = (
    # One timer for all of serving: what a prompt costs shows in its own first token and in others' time per token.
    # By hand: SGLang's front end, between 50 and 250 ms by machine; that prompts of its dense models hide launches; and
    # what those of models with experts take, for a fit swings from 1.0 to 1.6 ms by the weight of runs that compiled.
    Fit(
        "serving",
        lambda point: point.prepared.task in SERVED,
        (
            Constant("serving", "step_s", 1e-3, 0.05),
            Constant("serving", "sequence_s", 2e-5, 1e-3),
            Constant("serving", "prompt_factor", 1.0, 4.0, 0.1),
            Constant("serving", "prompt_layer_s", 1e-4, 2e-3),
            Constant("serving", "front_end_s", 0.02, 1.0),
            Constant("serving", "queue_base_equal", 2.0, 10.0),
            Constant("serving", "queue_slope_equal", 0.06, 10.0),
            Constant("vllm-0.14", "step_s", 5e-4, 0.05),
            Constant("sglang", "moe_step_s", 1e-3, 0.05),
            Constant("sglang-0.5.8", "moe_step_s", 1e-3, 0.05),
            Constant("trtllm-1.0", "moe_step_s", 1e-3, 0.05),
            Constant("trtllm-1.0", "prompt_layer_s", 3e-5, 2e-3),
            Constant("trtllm-1.0", "front_end_s", 0.06, 1.0),
            Constant("trtllm", "step_s", 3e-4, 0.05),
            Constant("trtllm", "sequence_s", 1e-5, 1e-3),
            Constant("trtllm", "prompt_factor", 1.0, 4.0, 0.1),
            Constant("trtllm", "front_end_s", 0.03, 1.0),
        ),
        PULL,
    ),
    Fit(
        "first token of static batches",
        _task("alone", "vllm-2024", "trtllm-2023", "trtllm-0.7", "trtllm-2024"),
        (
            Constant("trtllm-2023", "prompt_factor", 1.0, 4.0, 0.1),
            Constant("trtllm-2023", "prompt_layer_s", 6e-5, 1e-2),
            Constant("trtllm-2024", "prompt_layer_s", 6e-5, 1e-2),
            Constant("vllm-2024", "prompt_layer_s", 6e-5, 1e-2),
        ),
    ),
    Fit("vllm-2024", _dense_static("vllm-2024"), _steps("vllm-2024")),
    Fit(
        "vllm-2024-cdna-3",
        _dense_static("vllm-2024-cdna-3"),
        (*_steps("vllm-2024-amd")[:3], Constant("vllm-2024-cdna-3", "busy_factor", 10.0, 40.0, 0.1)),
    ),
    Fit("trtllm-2024", _dense_static("trtllm-2024"), _steps("trtllm-2024")[1:]),
    Fit(
        "trtllm-2023",
        _static_of("TensorRT-LLM", "trtllm-2023", "trtllm-0.7"),
        (Constant("trtllm-2023", "busy_factor", 1.0, 4.0, 0.1),),
    ),
    Fit("trtllm-0.14", _profile("trtllm-0.14"), _offline("trtllm-0.14")),
    Fit("trtllm-0.20", _profile("trtllm-0.20"), _offline("trtllm-0.20")),
    Fit(
        "mlperf",
        _task("tuned"),
        (
            Constant("mlperf", "kernel_factor", 1.0, 2.0, 0.1),
            Constant("mlperf", "sequence_s", 1e-5, 1e-3),
            Constant("mlperf", "arrival_wait", 1.0, 10.0),
        ),
    ),
    Fit(
        "vllm-2024-amd first token",
        _task("alone", "vllm-2024-amd", "vllm-2024-cdna-3"),
        (Constant("vllm-2024-amd", "prompt_factor", 1.0, 40.0, 0.1),),
    ),
)  # fmt: skip


def fitted(fit: Fit, points: Sequence[Point], tables: Tables, near: bool = False) -> Tables:
    """The tables with the constants of one fit replaced; `near`: sought from those of the tables."""
    stacked = stack(points)
    measured = np.log(np.array([point.measured for point in points]))

    scale = SOFT / np.array([SCALES.get(point.prepared.task, SOFT) for point in points])

    def residuals(values: Any) -> Any:
        found = predict_stacked(points, stacked, resolved(_with(tables, fit, values)))
        return np.concatenate([scale * (np.log(found) - measured), pulled(fit, values)])

    starts, low, high = zip(*((one.start, one.least, one.most) for one in fit.constants), strict=True)
    if near:
        by_name = {table["name"]: table for table in tables}
        found = (by_name[one.profile].get(one.field, one.start) for one in fit.constants)
        starts = tuple(max(value, one.start / 10) for value, one in zip(found, fit.constants, strict=True))
    return _with(tables, fit, robust_fit(residuals, starts, low, high, SOFT, factors=(1.0,), precision=PRECISION))


def pulled(fit: Fit, values: Any) -> Any:
    """Residuals of constants from their starts."""
    guess = np.array([one.start for one in fit.constants])
    return fit.pull * SOFT * np.log((np.array(values) / guess + FLOOR) / (1 + FLOOR))


def _with(tables: Tables, fit: Fit, values: Iterable[float]) -> Tables:
    changed = deepcopy(tables)
    by_name = {table["name"]: table for table in changed}
    for constant, value in zip(fit.constants, values, strict=True):
        by_name[constant.profile][constant.field] = float(value)
    return changed


def left_out(fit: Fit, points: Sequence[Point], tables: Tables, whole: Whole = "cell") -> Any:
    """The prediction of every point by constants fitted without its cell, its model or its GPU."""
    found = np.empty(len(points))
    cells = [getattr(point, whole) for point in points]
    for cell in sorted(set(cells)):
        inside = [i for i, one in enumerate(cells) if one == cell]
        outside = [points[i] for i, one in enumerate(cells) if one != cell]
        mine = [points[i] for i in inside]
        refitted = fitted(fit, outside, tables, near=True) if len(outside) > len(fit.constants) else tables
        found[inside] = predict_stacked(mine, stack(mine), resolved(refitted))
    return found
