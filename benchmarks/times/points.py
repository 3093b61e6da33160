"""Points: a case of any group becomes a prepared task, or a reason why it cannot be expressed."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from times.setting import Case, Setting, setting_of
from times.tasks import TASKS, Prepared

from kvcalc.errors import KvcalcError
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.engine_profiles import Profile

NOT_TIMES = ("ratio", "mbu", "achieved_TFLOPS", "achieved_GBps", "speedup", "acceptance_length")
SERVING = "serving_"


@dataclass(frozen=True)
class Point:
    """One case that kvcalc can answer."""

    case: Case
    setting: Setting
    prepared: Prepared
    profile: str

    @property
    def cell(self) -> tuple[str, str, str]:
        return self.case.get("model", ""), self.case["gpu"], self.case["engine"]

    @property
    def model(self) -> str:
        return self.cell[0]

    @property
    def gpu(self) -> str:
        return self.setting.gpu.name

    @property
    def measured(self) -> float:
        return float(self.case["value"])


def point_of(case: Case, known: tuple[Profile, ...]) -> Point:
    """The point of an end-to-end case.

    Raises:
        KvcalcError: it cannot be expressed, with the reason.
    """
    metric = case["metric"]
    if metric in NOT_TIMES:
        raise KvcalcError(f"{metric} is neither a time nor a throughput", hint="none")
    setting = setting_of(_completed(case))
    profile = setting.profile(known)
    task, unit = _task(setting, metric)
    parts = TASKS[task].prepare(setting, profile)
    return Point(case, setting, Prepared(task, parts, unit), profile.name)


def with_kernels(point: Point, kernels: Kernels, known: tuple[Profile, ...]) -> Point:
    """The same point on other kernel constants."""
    setting = replace(point.setting, kernels=kernels)
    parts = TASKS[point.prepared.task].prepare(setting, setting.profile(known))
    return replace(point, setting=setting, prepared=replace(point.prepared, parts=parts))


def _completed(case: Case) -> Case:
    """What a case leaves out, taken for granted: MLPerf's mixture has prompts of about twice its answers."""
    if case.get("scenario") and not case.get("input_len"):
        return {**case, "input_len": 2 * case["output_len"]}
    return case


def _task(setting: Setting, metric: str) -> tuple[str, float]:
    """The task that a metric measures, and its factor."""
    case = setting.case
    gpus = case.get("n_gpus", 1)
    replicas = setting.layout.data_parallel_size
    closed_loop = "len_scale" in case or str(case.get("group", "")).startswith(SERVING)
    if metric == "tpot_ms":
        return ("tpot" if closed_loop else "decode"), 1e3
    if metric == "ttft_ms":
        return ("ttft" if closed_loop else "alone"), 1e3
    if metric in ("decode_tokens_per_s", "total_decode_tokens_per_s"):
        return "decode", -setting.batch
    if metric == "batch_latency_s":
        return "static", 1
    if metric == "output_tokens_per_s_per_gpu" and case.get("batch") and setting.output_len:
        return "static", -setting.batch * setting.output_len * replicas / gpus
    if metric == "output_tokens_per_s_per_gpu" and case.get("batch"):
        return "decode", -setting.batch * replicas / gpus
    if metric == "requests_per_s":
        return "static", -setting.batch
    if metric == "total_output_tokens_per_s":
        return ("tuned", 1) if case.get("scenario") else ("saturated", 1)
    if metric == "prefill_tokens_per_s":
        return "prompts", 1
    if metric == "prefill_tokens_per_s_per_gpu" and setting.input_len:
        return "prompts", replicas / gpus
    if metric == "output_tokens_per_s_per_gpu" and setting.context > 1:
        return "saturated", replicas / gpus
    if metric == "kernel_us" and case["op"]["op"] == "ep_dispatch":
        return "dispatch", 1e6
    raise KvcalcError(f"{metric} without the lengths or the batch that it was measured at", hint="state them")


def stack(points: Sequence[Point]) -> dict[tuple[str, str], tuple[list[int], dict[str, Any]]]:
    """Parts of points as arrays, by task and profile, with the points' places."""
    places = defaultdict(list)
    for place, point in enumerate(points):
        places[point.prepared.task, point.profile].append(place)
    return {
        key: (some, {name: np.array([points[i].prepared.parts[name] for i in some], float)
                     for name in points[some[0]].prepared.parts})
        for key, some in places.items()
    }  # fmt: skip


def predict(points: Sequence[Point], known: Iterable[Profile]) -> Any:
    """The metric of every point, with these profiles."""
    return predict_stacked(points, stack(points), known)


def predict_stacked(points: Sequence[Point], stacked: dict[Any, Any], known: Iterable[Profile]) -> Any:
    """`predict` of points that are stacked already."""
    by_name = {profile.name: profile for profile in known}
    found = np.empty(len(points))
    for (task, name), (places, parts) in stacked.items():
        found[places] = TASKS[task].formula(parts, by_name[name])
    unit = np.array([point.prepared.unit for point in points])
    # A negative unit is a rate made of the formula's seconds.
    return np.where(unit < 0, -unit / found, unit * found)


def is_rate(point: Point) -> bool:
    """Whether the metric grows where time shrinks."""
    return point.prepared.unit < 0 or TASKS[point.prepared.task].rate
