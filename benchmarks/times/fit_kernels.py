"""Fit kernel constants to measured kernels: few constants a GPU and element type, robust to single odd points."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from times.kernel_cases import (
    Case,
    attention_quantities,
    dtype_of,
    experts_quantities,
    gemm_quantities,
    latent_quantities,
    prefill_quantities,
    seconds,
)
from times.least import robust_fit

from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.operators.attention import attention_time, latent_attention_time, prefill_attention_time
from kvcalc.timing.operators.matmul import matmul_time
from kvcalc.timing.operators.smooth import Times

SOFT = 0.05  # residuals above 5 % count by their size, not by their square
EXPERTS_FLOPS_SHARE = {"1": 0.5, "32": 0.3}  # set, not fitted: the files stop where memory still binds


class Form(NamedTuple):
    """One kind of kernel: what its formula takes, its constants with start and bounds, and what keys a row."""

    group: str
    quantities: Callable[[Sequence[Case], GpuSpec], tuple[Any, ...]]
    formula: Callable[..., Any]
    constants: tuple[tuple[str, float, float, float], ...]  # name, start, least, most
    key: Callable[[Case], tuple[str, ...]]


def _library(case: Case) -> str:
    return "trtllm" if case["engine"] == "TensorRT-LLM" else "vllm"


def lone_matmul_time(inputs: Any, *rest: Any) -> Times:
    """A multiplication that runs alone; the last constant is what its walk takes for one input."""
    moved, flops, bandwidth, peak, latency, bandwidth_share, flops_share, input_s = rest
    return matmul_time(moved, flops, bandwidth_share * bandwidth, flops_share * peak, latency, inputs * input_s)


def experts_time(*given: Any) -> Times:
    """All experts of a layer, at shares of the data sheet's rates."""
    moved, flops, bandwidth, peak, latency, bandwidth_share, flops_share = given
    return matmul_time(moved, flops, bandwidth_share * bandwidth, flops_share * peak, latency)


def cached_attention_time(*given: Any) -> Times:
    """Decode attention at a share of the bandwidth."""
    moved, flops, bandwidth, peak, latency, bandwidth_share = given
    return attention_time(moved, flops, bandwidth_share * bandwidth, peak, latency)


def shared_latent_time(*given: Any) -> Times:
    """Latent attention at shares of the data sheet's rates, and what the walk takes for one token."""
    moved, flops, context, bandwidth, peak, latency, bandwidth_share, flops_share, token_s = given
    return latent_attention_time(
        moved, flops, context * token_s, bandwidth_share * bandwidth, flops_share * peak, latency
    )


def prompt_attention_time(*given: Any) -> Times:
    """Attention among a prompt's tokens at shares of the data sheet's rates."""
    flops, moved, bandwidth, peak, latency, bandwidth_share, flops_share = given
    return prefill_attention_time(flops, moved, bandwidth_share * bandwidth, flops_share * peak, latency)


LATENCY = ("latency_s", 8e-6, 0.0, 1e-3)
BANDWIDTH = ("bandwidth_share", 0.8, 0.02, 3.0)
FLOPS = ("flops_share", 0.6, 0.02, 3.0)
# All but all-reduces, which `fit_links.py` fits against each other.
FORMS = (
    Form(
        "k_gemm",
        gemm_quantities,
        lone_matmul_time,
        (LATENCY, BANDWIDTH, FLOPS, ("input_s", 1e-9, 0.0, 1e-8)),
        lambda case: (dtype_of(case),),
    ),
    Form(
        "k_attn_decode",
        attention_quantities,
        cached_attention_time,
        (LATENCY, BANDWIDTH),
        lambda case: (dtype_of(case), _library(case)),
    ),
    Form(
        "k_mla_decode",
        latent_quantities,
        shared_latent_time,
        (LATENCY, BANDWIDTH, FLOPS, ("token_s", 3e-10, 0.0, 1e-6)),
        lambda case: (dtype_of(case),),
    ),
    Form(
        "k_attn_prefill",
        prefill_quantities,
        prompt_attention_time,
        (LATENCY, BANDWIDTH, FLOPS),
        lambda case: (dtype_of(case),),
    ),
    Form(
        "k_moe",
        experts_quantities,
        experts_time,
        (LATENCY, BANDWIDTH, FLOPS),
        lambda case: (dtype_of(case), case["op"]["kernel"]),
    ),
)


def rows_of(form: Form, cases: Iterable[Case]) -> dict[tuple[str, ...], list[Case]]:
    """Cases by GPU and by what keys a row of constants."""
    found = defaultdict(list)
    for case in cases:
        found[case["gpu"], *form.key(case)].append(case)
    return dict(found)


def predict(form: Form, cases: Sequence[Case], gpu: GpuSpec, constants: Sequence[float]) -> Any:
    """Seconds of every case."""
    latency, work = form.formula(*form.quantities(cases, gpu), *constants)
    return latency + work


def fit(form: Form, cases: Sequence[Case], gpu: GpuSpec, fixed: dict[str, float] | None = None) -> list[float]:
    """Constants that minimise a soft absolute error of the logarithm; the best of a few starts."""
    fixed = fixed or {}
    free = [one for one in form.constants if one[0] not in fixed]
    quantities, measured = form.quantities(cases, gpu), np.log(seconds(cases))

    def whole(values: Any) -> list[float]:
        given = dict(zip([one[0] for one in free], values, strict=True)) | fixed
        return [float(given[one[0]]) for one in form.constants]

    def residuals(values: Any) -> Any:
        latency, work = form.formula(*quantities, *whole(values))
        return np.log(latency + work) - measured

    _, starts, low, high = zip(*free, strict=True)
    return whole(robust_fit(residuals, starts, low, high, SOFT))


def fixed_share(form: Form, cases: Sequence[Case]) -> dict[str, float]:
    """What is set by hand: the FLOP share of experts, by how many there are."""
    if form.group != "k_moe":
        return {}
    experts = cases[0]["op"]["experts"]
    return {"flops_share": EXPERTS_FLOPS_SHARE["32" if experts >= 32 else "1"]}
