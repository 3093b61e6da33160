"""Fit llama.cpp, whose kernels are its own: by class of memory, a share of the bandwidth and a time a layer."""

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np
from times.fit_engines import SOFT
from times.kernel_cases import Case
from times.least import robust_fit
from times.points import Point, predict, with_kernels
from times.refit_kernels import Table, rounded

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.kernels import load_kernels, similar
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.kernels import Kernels
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.peaks import arithmetic

CONSTANTS = 5  # of a class: two bandwidth shares, a latency, two FLOP shares
USUAL_FLOPS_SHARE = 0.4  # where no case measures a prompt
NEEDED = {"context", "weights_file_bytes"}  # of a decode case that is fitted
KERNELS_A_LAYER = 5  # operators of a layer that a launch is charged to: four multiplications, attention


def fit_llamacpp(cases: Sequence[Case]) -> dict[str, Table]:
    """Kernel rows of llama.cpp by class of memory: a share of the bandwidth and a time a layer, from decode runs.

    Its kernels are more launches than the operator list has; a layer's time is divided among the five there.
    """
    classes = defaultdict(list)
    for case in cases:
        like = similar(load_gpu(case["gpu"]), "llamacpp")
        assert like, "the last class takes every GPU"
        classes[like].append(case)
    found: dict[str, Table] = {}
    for like, some in sorted(classes.items()):
        decode = [case for case in some if case["metric"] == "decode_tokens_per_s" and case.keys() >= NEEDED]
        if not decode:
            continue
        moved, layers, whole = (np.array(column) for column in zip(*map(_llamacpp_case, decode), strict=True))
        measured = np.log(1 / np.array([case["value"] for case in decode]))

        def time(values: Any, moved: Any = moved, layers: Any = layers, whole: Any = whole) -> Any:
            return moved / np.where(whole, values[0], values[1]) + layers * values[2]

        def residuals(values: Any, time: Any = time, measured: Any = measured) -> Any:
            return np.log(time(values)) - measured

        best = robust_fit(residuals, (0.8, 0.8, 1e-4), (0.1, 0.1, 0), (1.5, 1.5, 1e-2), SOFT, factors=(1.0,))
        error = float(np.median(np.abs(np.exp(np.log(time(best)) - measured) - 1)))
        found[like] = _llamacpp_rows(best, some, len(decode), error)
    return found


def _llamacpp_case(case: Case) -> tuple[float, int, bool]:
    """Seconds at full bandwidth (file without its input embedding, cache), layers, whether all is in f16."""
    dims = case["dims"]
    size = case["weights_file_bytes"]
    table = dims["vocab"] * dims["h"] * size / dims["params"]
    cache = 4 * dims["n_kv"] * dims["d_h"] * dims["L"] * case["context"]
    whole = case.get("weights_dtype") == "f16"
    return (size - table + cache) / load_gpu(case["gpu"]).memory_bandwidth_bytes_per_s, dims["L"], whole


def _llamacpp_rows(constants: Sequence[float], cases: Sequence[Case], points: int, error: float) -> Table:
    latency = float(constants[2]) / KERNELS_A_LAYER
    rows: Table = {"gemm": [], "attention": []}
    for dtype, share, whole in (("fp16", constants[0], True), ("any", constants[1], False)):
        rates = [
            2 * case["dims"]["params"] * case["value"] / arithmetic(load_gpu(case["gpu"]), "fp16")[1]
            for case in cases
            if case["metric"] == "prefill_tokens_per_s" and (case.get("weights_dtype") == "f16") == whole
        ]
        flops_share = median(rates) if rates else USUAL_FLOPS_SHARE
        row = {"dtype": dtype, "latency_s": latency, "bandwidth_share": float(share), "flops_share": flops_share}
        rows["gemm"].append(rounded(row | {"points": points, "error": error}))
    cache = {"dtype": "bf16", "library": "any", "latency_s": latency, "bandwidth_share": float(constants[0])}
    rows["attention"].append(rounded(cache | {"points": points, "error": error}))
    return rows


def left_out_llamacpp(points: Sequence[Point], known: tuple[Profile, ...]) -> Any:
    """The prediction of every point by kernels fitted without its cell."""
    found = np.empty(len(points))
    cells = [point.cell for point in points]
    for cell in sorted(set(cells)):
        rows = fit_llamacpp([point.case for point in points if point.cell != cell])
        inside = [place for place, one in enumerate(cells) if one == cell]
        gpu = load_gpu(points[inside[0]].case["gpu"])
        shipped = load_kernels(gpu, "llamacpp")
        like = similar(gpu, "llamacpp")
        table = build(Kernels, {"evidence": "refit"} | rows.get(like or "", {}))
        changed = replace(shipped, gemm=table.gemm, attention=table.attention) if table.gemm else shipped
        mine = [with_kernels(points[place], changed, known) for place in inside]
        found[inside] = predict(mine, known)
    return found
