"""Kernel cases as physical quantities: bytes, FLOPs, rows; what the formulas of `timing.kernels` take."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from times.shapes import FORMATS

from kvcalc.counting.cache import element_bytes
from kvcalc.counting.operators.matmul import bits_per_weight
from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.peaks import arithmetic, joining_link

Case = Mapping[str, Any]
# How the case files spell element types.
SPELLINGS = {
    "float": "fp32", "bfloat16": "bf16", "half": "fp16", "w4a16_mxfp4": "mxfp4", "w4a8_mxfp4_mxfp8": "mxfp4-a8",
}  # fmt: skip


def dtype_of(case: Case) -> str:
    """The element type that keys a kernel's constants."""
    name: str = case.get("weights_dtype") or case.get("kv_dtype") or case["op"]["dtype"]
    return SPELLINGS.get(name, name).replace("_", "-")


def column(cases: Sequence[Case], *path: str) -> Any:
    """One number of every case, as an array."""
    found = []
    for case in cases:
        value: Any = case
        for key in path:
            value = value[key]
        found.append(float(value))
    return np.array(found)


def seconds(cases: Sequence[Case]) -> Any:
    return column(cases, "value") * 1e-6


def gemm_quantities(cases: Sequence[Case], gpu: GpuSpec) -> tuple[Any, ...]:
    """Inputs, bytes, FLOPs, bandwidth, peak of cases that share an element type."""
    m, n, k = (column(cases, "op", name) for name in "mnk")
    weight = FORMATS[dtype_of(cases[0]).replace("-", "_")]
    stored = bits_per_weight(weight, 1024) / 8 if weight.scale != "channel" else weight.bits / 8
    narrow = element_bytes(weight.compute)
    _, peak = arithmetic(gpu, weight.compute)
    moved = n * k * stored + m * k * narrow + 2 * m * n
    return k, moved, 2 * m * n * k, gpu.memory_bandwidth_bytes_per_s, peak


def attention_quantities(cases: Sequence[Case], gpu: GpuSpec) -> tuple[Any, ...]:
    heads, kv_heads, size = (column(cases, "op", name) for name in ("heads", "n_kv", "d_h"))
    flops = 4 * heads * size * column(cases, "batch") * column(cases, "context")
    _, peak = arithmetic(gpu, "bf16")
    return 2 * kv_heads * size * _cached(cases), flops, gpu.memory_bandwidth_bytes_per_s, peak


def _cached(cases: Sequence[Case]) -> Any:
    """Cached tokens × bytes of an element, of cases that share the cache's element type."""
    return column(cases, "batch") * column(cases, "context") * element_bytes(dtype_of(cases[0]))


def latent_quantities(cases: Sequence[Case], gpu: GpuSpec) -> tuple[Any, ...]:
    rank, rope, heads = (column(cases, "op", name) for name in ("kv_lora", "rope", "heads"))
    batch, context = column(cases, "batch"), column(cases, "context")
    flops = 2 * heads * batch * context * (2 * rank + rope)
    _, peak = arithmetic(gpu, "bf16")
    return (rank + rope) * _cached(cases), flops, context, gpu.memory_bandwidth_bytes_per_s, peak


def prefill_quantities(cases: Sequence[Case], gpu: GpuSpec) -> tuple[Any, ...]:
    """The causal half of the FLOPs; bytes of queries and outputs."""
    width, tokens = column(cases, "op", "heads") * column(cases, "op", "d_h"), column(cases, "input_len")
    rows = column(cases, "batch") * tokens
    _, peak = arithmetic(gpu, "bf16")
    return 2 * rows * tokens * width, 4 * rows * width, gpu.memory_bandwidth_bytes_per_s, peak


def experts_quantities(cases: Sequence[Case], gpu: GpuSpec) -> tuple[Any, ...]:
    """Bytes, FLOPs, bandwidth, peak; touched experts as the case's routing has it."""
    names = ("tokens", "h", "inter", "topk", "experts", "moe_tp", "moe_ep")
    tokens, hidden, width, top_k, experts, parts, ranks = (column(cases, "op", name) for name in names)
    balanced = np.array([case["op"]["distribution"] == "balanced" for case in cases])
    drawn = experts * (1 - (1 - top_k / experts) ** tokens)
    touched = np.where(balanced, np.minimum(experts, tokens * top_k), drawn) / ranks
    rows, width = tokens * top_k / ranks, width / parts
    dtype = dtype_of(cases[0])
    compute = "mxfp8" if dtype == "mxfp4-a8" else FORMATS[dtype.replace("-", "_")].compute
    weight = FORMATS[dtype.removesuffix("-a8").replace("-", "_")]
    _, peak = arithmetic(gpu, compute)
    moved = touched * 3 * hidden * width * bits_per_weight(weight, 1024) / 8 + rows * (4 * hidden + 6 * width)
    return moved, 6 * hidden * width * rows, gpu.memory_bandwidth_bytes_per_s, peak


def all_reduce_quantities(cases: Sequence[Case], gpu: GpuSpec) -> tuple[Any, int, float]:
    """Message bytes (the files count elements), GPUs, link."""
    gpus = int(cases[0]["n_gpus"])
    size = np.array([element_bytes(dtype_of(case)) for case in cases])
    return size * column(cases, "op", "message_size"), gpus, joining_link(gpu, gpus).bandwidth_bytes_per_s
