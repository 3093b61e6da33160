"""Fit all-reduces: NCCL's, each engine's own on its own rows, then launches without a graph.

An engine's rows span every size, with whatever it falls back to for large messages, so they have a law of their own;
under a minimum with NCCL's the fit stays above it. What is launched eagerly takes NCCL's time but at least a launch.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from times.fit_kernels import SOFT
from times.kernel_cases import Case, all_reduce_quantities, seconds
from times.least import robust_fit

from kvcalc.catalog.kernels import load_kernels
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import AllReduceKernel
from kvcalc.timing.operators.collective import ring_time

LIBRARIES = ("nccl", "trtllm", "vllm")
OWN_STARTS, OWN_MOST = (5e-6, 0.8, 6e-6), (1e-3, 3.9, 1e-3)  # latency, share of the link, root term


def library_of(case: Case) -> str:
    """Whose kernel, and whether it is launched without a graph: `vllm_graph` is "vllm", `nccl_eager` "nccl-eager"."""
    said = case["op"]["impl"].lower()
    library = next((name for name in LIBRARIES if name in said), None)
    if library is None:
        raise KvcalcError(f"all-reduce of {said}, no library that is known", hint=f"one of {', '.join(LIBRARIES)}")
    return f"{library}-eager" if "eager" in said else library


def by_group(cases: Iterable[Case]) -> dict[tuple[str, int], list[Case]]:
    """Cases by GPU and by how many take part."""
    found = defaultdict(list)
    for case in cases:
        found[case["gpu"], int(case["n_gpus"])].append(case)
    return dict(found)


def time_with(row: AllReduceKernel, nccl: AllReduceKernel, cases: Sequence[Case], gpu: GpuSpec) -> Any:
    """Seconds of cases of one library."""
    quantities = all_reduce_quantities(cases, gpu)
    if row.link_share is None:
        return np.maximum(row.latency_s, _ring(nccl, quantities))
    return _ring(row, quantities)


def _ring(row: AllReduceKernel, quantities: tuple[Any, int, float]) -> Any:
    latency, work = ring_time(*quantities, row.latency_s, row.link_share or 1, row.sqrt_s)
    return latency + work


def fit_group(cases: Sequence[Case], gpu: GpuSpec) -> list[AllReduceKernel]:
    """Rows of one GPU and group size: NCCL's, then the others'."""
    gpus = int(cases[0]["n_gpus"])
    parts = defaultdict(list)
    for case in cases:
        parts[library_of(case)].append(case)
    own = parts.pop("nccl", None)
    nccl = _fit_own("nccl", own, gpu, gpus) if own else _shipped_nccl(gpu, gpus)
    others = (
        _fit_eager(library, some, gpu, gpus, nccl) if library.endswith("-eager") else _fit_own(library, some, gpu, gpus)
        for library, some in sorted(parts.items())
    )
    return [nccl, *others]


def _shipped_nccl(gpu: GpuSpec, gpus: int) -> AllReduceKernel:
    """The nearest group of the data files, where no case measures NCCL."""
    rows = [row for row in load_kernels(gpu).all_reduce if row.library == "nccl"]
    return min(rows, key=lambda row: abs(row.gpus - gpus))


def _fit_own(library: str, cases: Sequence[Case], gpu: GpuSpec, gpus: int) -> AllReduceKernel:
    quantities = all_reduce_quantities(cases, gpu)
    values = _least(lambda values: sum(ring_time(*quantities, *values)), cases, OWN_STARTS, OWN_MOST)
    latency, share, root = (float(value) for value in values)
    row = AllReduceKernel(library=library, gpus=gpus, latency_s=latency, link_share=share, sqrt_s=root)
    return _with_evidence(row, row, cases, gpu)


def _fit_eager(library: str, cases: Sequence[Case], gpu: GpuSpec, gpus: int, nccl: AllReduceKernel) -> AllReduceKernel:
    def row_of(values: Any) -> AllReduceKernel:
        return AllReduceKernel(library=library, gpus=gpus, latency_s=float(values[0]))

    found = _least(lambda values: time_with(row_of(values), nccl, cases, gpu), cases, (2e-5,), (1e-3,))
    # A launch that NCCL's shortest call hides can be anything below that: it is taken to be as long.
    shortest = float(np.min(_ring(nccl, all_reduce_quantities(cases, gpu))))
    return _with_evidence(row_of((max(float(found[0]), shortest),)), nccl, cases, gpu)


def _least(
    predict: Callable[[Any], Any], cases: Sequence[Case], starts: tuple[float, ...], most: tuple[float, ...]
) -> Any:
    measured = np.log(seconds(cases))
    least = [0.0 if start < 1e-3 else 0.02 for start in starts]
    return robust_fit(lambda values: np.log(predict(values)) - measured, starts, least, most, SOFT)


def _with_evidence(row: AllReduceKernel, nccl: AllReduceKernel, cases: Sequence[Case], gpu: GpuSpec) -> AllReduceKernel:
    error = float(np.median(np.abs(time_with(row, nccl, cases, gpu) / seconds(cases) - 1)))
    return replace(row, points=len(cases), error=error)
