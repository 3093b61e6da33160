"""Fit llama.cpp's kernels: by backend and span of builds, with factors for classes of devices.

Data of one device are many and alike, and most devices have few: a device weighs 1/√(its points), outliers count by
their logarithm, and every constant is drawn to what is usual over all backends, as far as `SPREAD` says. So a constant
that few data speak of stays usual, and leaving a device out changes little where others stand in for it.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from times.ggml_flat import Flat, constants, flatten, seconds
from times.local_points import LocalPoint

from kvcalc.catalog.ggml import local_parts
from kvcalc.specs.ggml import GgmlKernels

NOISE = 0.08  # of a measurement, relative
# What is usual, and how far (in logarithms) a backend strays from it. Pooled over all backends by hand; for experts
# with sweeps over ubatches that are in no file here: gemma-4-26B and gpt-oss-20b on an RTX 3090, gemma-4-26B on an RTX
# 5090 (ggml-org/llama.cpp pull requests 22298 and 20586), which these constants meet within 12, 7 and 13 %. Recurrent
# states, too: a gated delta net of 32 heads takes 0.49 us a token on an RTX 5090 (pull request 22587); 3.6 us on a
# Ryzen AI Max 395 (AMD-Ecosystem/llama.cpp pull request 54), one of 24 heads 1.5 us on an R9700
# (stew675/llama-cpp-rdna-boosts pull request 9): 0.063, 0.030 and 0.033 of the fp32 peak.
USUAL: dict[str, tuple[float, float]] = {
    "bandwidth_share.legacy": (0.82, 0.12), "bandwidth_share.k": (0.78, 0.12), "bandwidth_share.mx": (0.8, 0.12),
    "bandwidth_share.plain": (0.8, 0.12), "prompt_bandwidth_share.legacy": (0.9, 0.15),
    "prompt_bandwidth_share.k": (0.9, 0.15), "prompt_bandwidth_share.mx": (0.9, 0.15),
    "prompt_bandwidth_share.plain": (0.9, 0.15), "flops_share.legacy": (0.25, 0.4), "flops_share.k": (0.22, 0.4),
    "flops_share.mx": (0.25, 0.4), "flops_share.plain": (0.55, 0.4), "fill_rows": (6, 0.7),
    "sixteens_share": (0.85, 0.2), "experts_flops_share": (0.5, 0.3), "tile_rows": (11, 0.4),
    "idle_share": (0.25, 0.4), "cache_share": (0.72, 0.3),
    "cache_share_no_flash": (0.3, 0.7), "attention_flops_share": (0.4, 0.5),
    "attention_flops_share_no_flash": (0.4, 0.5), "scores_passes": (2.5, 0.6), "elementwise_share": (0.5, 0.4),
    "launch_s": (2.5e-6, 0.6), "many_launch_s": (3e-6, 0.6), "experts_s": (30e-6, 0.6), "state_s": (60e-6, 0.7),
    "state_share": (0.05, 0.5),
}  # fmt: skip


@dataclass(frozen=True)
class DeviceClass:
    """Devices that run alike, and the constants that are their own: factors of the others'."""

    name: str
    compute_capability: tuple[str, ...] = ()
    unified_memory: bool | None = None
    widest_tile: int | None = None  # other than its family's
    own: tuple[tuple[str, float, float], ...] = ()  # constant, its usual factor, and how far it strays (in logarithms)

    def has(self, name: str) -> bool:
        return any(own == name for own, *_ in self.own)


@dataclass(frozen=True)
class Family:
    """A backend in a span of builds, for devices of one vendor."""

    name: str
    backend: str
    since: str
    until: str = "9999"
    vendor: str | None = None
    peak: str = "int8"
    usual: tuple[tuple[str, float, float], ...] = ()  # other than USUAL
    classes: tuple[DeviceClass, ...] = ()
    widest_tile: int = 128  # columns that the widest kernels of a multiplication take, by their source
    prompt_noise: float = NOISE  # of prompts, where builds and drivers decide more than kernels

    @cached_property
    def parameters(self) -> list[tuple[str, float, float]]:
        other = {name: (value, spread) for name, value, spread in self.usual}
        base = [(name, *other.get(name, usual)) for name, usual in USUAL.items()]
        factors = [(f"{one.name}:{own}", usual, far) for one in self.classes for own, usual, far in one.own]
        return [*base, *factors]

    def tile_of(self, one: DeviceClass | None) -> int:
        """Columns of the widest tile of a class of devices."""
        return self.widest_tile if one is None or one.widest_tile is None else one.widest_tile

    def takes(self, point: LocalPoint) -> bool:
        gpu = point.replica.machine.gpu
        mine = point.replica.machine.ggml
        assert mine is not None
        return (
            mine.backend == self.backend
            and self.since <= month(point) < self.until
            and self.vendor in (None, gpu.vendor)
        )


def month(point: LocalPoint) -> str:
    from times.local_points import version_of

    from kvcalc.catalog.ggml import month_of

    return month_of(version_of(point.row))


def class_of(family: Family, point: LocalPoint) -> DeviceClass | None:
    """The first class that a point's device belongs to."""
    gpu = point.replica.machine.gpu
    for one in family.classes:
        chip = not one.compute_capability or gpu.compute_capability in one.compute_capability
        if chip and one.unified_memory in (None, gpu.unified_memory):
            return one
    return None


HBM = (("bandwidth_share", 0.65, 0.2),)
HBM_THEN = (("bandwidth_share", 0.65, 0.4), ("launch_s", 1.3, 0.3))  # what drove these cards then was slower, too
A100 = DeviceClass("a100", ("8.0",), own=(*HBM, ("flops_share", 0.45, 0.2)))
HOPPER = DeviceClass("hopper", ("9.0", "10.0", "10.3"), own=(*HBM, ("flops_share", 0.3, 0.3)))
A100_FP16 = DeviceClass("a100", ("8.0",), own=(*HBM_THEN, ("flops_share", 0.8, 0.2)))
HOPPER_FP16 = DeviceClass("hopper", ("9.0", "10.0", "10.3"), own=(*HBM_THEN, ("flops_share", 0.6, 0.4)))
TURING = DeviceClass("turing", ("7.5",), own=(("launch_s", 2.0, 0.4), ("flops_share", 1.0, 0.2)))
# Without tensor cores for whole numbers: narrower tiles (ggml-cuda/mmq.cuh, get_mmq_x_max_host), and more of a lower
# peak.
EARLY = DeviceClass(
    "before-turing", ("5.0", "5.2", "6.0", "6.1", "7.0"), widest_tile=64,
    own=(("launch_s", 2.0, 0.4), ("flops_share", 1.25, 0.2)),
)  # fmt: skip
ADA = DeviceClass("ada", ("8.9",), own=(("flops_share", 1.15, 0.15),))  # clocks above the data sheet's boost
UNIFIED = DeviceClass("unified", unified_memory=True, own=(
    ("bandwidth_share", 1.0, 0.08), ("flops_share", 0.7, 0.2), ("attention_flops_share", 0.7, 0.3),
))  # fmt: skip
INT8_USUAL = (
    ("state_share", 0.063, 0.3), ("launch_s", 1.5e-6, 0.4), ("bandwidth_share.legacy", 0.85, 0.05),
    ("bandwidth_share.k", 0.81, 0.05), ("bandwidth_share.mx", 0.82, 0.08), ("bandwidth_share.plain", 0.85, 0.08),
)  # fmt: skip
CLASSES = (A100, HOPPER, EARLY, TURING, ADA, UNIFIED)
FAMILIES = (
    # Scores pass the memory five times: written; read and written by the softmax; read once more, written in half
    # precision and read by the library (ggml-cuda.cu of May 2024).
    Family(
        "cuda-2023", "cuda", "2023-09", "2024-06", usual=(
            ("scores_passes", 5, 0.3),
            ("bandwidth_share.k", 0.8, 0.3), ("bandwidth_share.plain", 0.85, 0.3),
            ("launch_s", 3.5e-6, 0.8), ("many_launch_s", 15e-6, 0.6), ("prompt_bandwidth_share.k", 0.4, 0.6),
            ("prompt_bandwidth_share.legacy", 0.4, 0.6), ("flops_share.k", 0.22, 0.3),
            ("flops_share.legacy", 0.22, 0.3), ("flops_share.plain", 0.75, 0.4),
        ), classes=(A100_FP16, HOPPER_FP16),
    ),
    Family("cuda-2024", "cuda", "2024-06", "2025-11", usual=INT8_USUAL, classes=CLASSES),
    # Routing and its softmax are one kernel since (ggml-org/llama.cpp pull requests 16715 and 16991).
    Family("cuda", "cuda", "2025-11", usual=(*INT8_USUAL, ("experts_s", 1e-5, 0.6)), classes=CLASSES),
    Family("hip-2023", "hip", "2023-09", "2025-11", prompt_noise=0.4, usual=(
        ("state_share", 0.031, 0.3),
        ("flops_share.legacy", 0.45, 0.5), ("flops_share.k", 0.4, 0.5), ("attention_flops_share", 0.1, 0.8),
        ("cache_share_no_flash", 0.12, 0.4), ("launch_s", 4e-6, 0.6),
    )),
    Family("hip", "hip", "2025-11", prompt_noise=0.3, usual=(
        ("state_share", 0.031, 0.3),
        ("flops_share.legacy", 0.45, 0.5), ("flops_share.k", 0.4, 0.5), ("attention_flops_share", 0.15, 0.8),
        ("cache_share_no_flash", 0.12, 0.4),
    )),
    # On AMD and Intel no large tiles (ggml-vulkan.cpp, mul_mat_id_l).
    Family("vulkan-amd", "vulkan", "2023-09", vendor="AMD", prompt_noise=0.3, widest_tile=64, usual=(
        ("attention_flops_share", 0.1, 0.8), ("flops_share.plain", 0.3, 0.6),
    )),
    Family("vulkan-nvidia", "vulkan", "2023-09", vendor="NVIDIA"),
    Family("vulkan-intel", "vulkan", "2023-09", vendor="Intel", widest_tile=64, usual=(("flops_share.k", 0.1, 0.8),)),
    # Tiles of 32 tokens, and each with less to prepare (ggml-metal.metal, kernel_mul_mm_id).
    Family("metal", "metal", "2023-09", peak="fp16", widest_tile=32, usual=(
        ("tile_rows", 4, 0.4),
        ("flops_share.legacy", 0.65, 0.3), ("flops_share.k", 0.6, 0.3), ("flops_share.mx", 0.6, 0.3),
        ("flops_share.plain", 0.75, 0.3), ("launch_s", 4.5e-6, 0.5),
    )),
    # Its experts are multiplied one by one, and wait each time for the host, which reads what was chosen
    # (ggml-sycl.cpp, ggml_sycl_mul_mat_id). How long is a judgement by two runs of gpt-oss-20b on an Arc A770.
    Family("sycl", "sycl", "2023-09", usual=(
        ("experts_s", 2.5e-3, 0.3),
        ("launch_s", 8e-6, 0.8), ("flops_share.k", 0.1, 0.8), ("flops_share.legacy", 0.1, 0.8),
    )),
)  # fmt: skip


class Problem:
    """Some points of one family as arrays; `seconds` of a vector of constants."""

    def __init__(self, family: Family, points: Sequence[LocalPoint]) -> None:
        self.family, self.points = family, points
        parts = [
            (place, often, point.replica.machine, one)
            for place, point in enumerate(points)
            for often, one in point.operators()
            if not one.link_bytes
        ]
        self.flat: Flat = flatten(parts, len(points), family.peak)
        self.pipeline = np.array([point.pipeline for point in points])
        hops = [(point.stages - 1) * sum(often for often, _ in point.steps) for point in points]
        self.hops = local_parts().split.hop_s * np.array(hops)
        self.measured = np.array([point.measured_s for point in points])
        self.devices = [point.device for point in points]
        classes = [class_of(family, point) for point in points]
        self.classes = np.array([family.classes.index(one) if one else -1 for one in classes])
        self.tiles = np.array([family.tile_of(one) for one in classes])

    def part(self, keep: Sequence[bool]) -> "Problem":
        return Problem(self.family, [point for point, kept in zip(self.points, keep, strict=True) if kept])

    def seconds(self, values: Any) -> Any:
        return self.pipeline * (seconds(self.flat, self._constants(values)) + self.hops)

    def _constants(self, values: Any) -> dict[str, Any]:
        flat, family = self.flat, self.family
        by_name = dict(zip((name for name, *_ in family.parameters), values, strict=True))
        found: dict[str, Any] = {"widest_tile": self.tiles[flat.point]}
        for name in by_name:
            if ":" in name:
                continue
            field = name.split(".")[0]
            if field not in found:
                quants = ("legacy", "k", "mx", "plain")
                if "." in name:
                    found[field] = np.array([by_name[f"{field}.{one}"] for one in quants])[flat.quants]
                else:
                    found[field] = np.full(len(flat.point), by_name[field])
        of = self.classes[flat.point]
        for number, one in enumerate(family.classes):
            for own, *_ in one.own:
                factor = by_name[f"{one.name}:{own}"]
                found[own] = np.where(of == number, found[own] * factor, found[own])
                if own == "bandwidth_share":
                    found["cache_share"] = np.where(of == number, found["cache_share"] * factor, found["cache_share"])
        return found


def fit(problem: Problem, start: Any = None) -> Any:
    """The constants of a family that explain its points best; `start`: those of nearly the same points."""
    from scipy.optimize import least_squares

    usual = np.array([value for _, value, _ in problem.family.parameters])
    spread = np.array([spread for *_, spread in problem.family.parameters])
    sizes = Counter(problem.devices)
    # How stages overlap is not fitted: what several devices measured says little of one device's kernels.
    weight = np.array(
        [sizes[d] ** -0.5 * (p.stages == 1) for d, p in zip(problem.devices, problem.points, strict=True)]
    )
    target = np.log(problem.measured)
    noise = np.array([NOISE if point.decodes else problem.family.prompt_noise for point in problem.points])

    def residuals(moved: Any) -> Any:
        error = (np.log(problem.seconds(usual * np.exp(moved * spread))) - target) / noise
        return np.concatenate([weight * np.sign(error) * np.sqrt(np.log1p(error**2)), moved])

    first = np.zeros(len(usual)) if start is None else np.log(start / usual) / spread
    found = least_squares(residuals, first, x_scale=1.0, max_nfev=40, xtol=1e-5, ftol=1e-6)
    return usual * np.exp(found.x * spread)


def kernels_of(family: Family, values: Any, evidence: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of the data file: one for each class of devices, and one for all others."""
    by_name = dict(zip((name for name, *_ in family.parameters), values, strict=True))
    rows = []
    for one in (*family.classes, None):
        row: dict[str, Any] = {
            "name": family.name if one is None else f"{family.name}-{one.name}",
            "backend": family.backend,
            "since": family.since,
            "peak": family.peak,
            "widest_tile": family.tile_of(one),
        }
        if family.vendor:
            row["vendor"] = family.vendor
        if one is not None and one.compute_capability:
            row["compute_capability"] = list(one.compute_capability)
        if one is not None and one.unified_memory is not None:
            row["unified_memory"] = one.unified_memory
        for name, value in by_name.items():
            if ":" in name:
                continue
            field, _, quants = name.partition(".")
            factor = 1.0
            if one is not None:
                source = "bandwidth_share" if field == "cache_share" else field
                factor = by_name[f"{one.name}:{source}"] if one.has(source) else 1.0
            if quants:
                row.setdefault(field, {})[quants] = float(value * factor)
            else:
                row[field] = float(value * factor)
        rows.append(row | evidence)
    return rows


def check(problem: Problem, rows: Sequence[GgmlKernels]) -> Any:
    """Seconds by the rows of the data file: what `Problem.seconds` gives for the constants that they came from."""
    return problem.pipeline * (seconds(problem.flat, constants(problem.flat, rows)) + problem.hops)
