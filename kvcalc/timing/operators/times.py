"""The time of one operator on one GPU: its formula, with the constants that were measured for its kind."""

from dataclasses import replace
from typing import NamedTuple, TypeVar

from kvcalc.counting.arrays import Quantity, least
from kvcalc.counting.work import Operator
from kvcalc.errors import KvcalcError
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import (
    AllReduceKernel,
    AttentionKernel,
    GemmKernel,
    Kernels,
    LatentAttentionKernel,
    PrefillAttentionKernel,
)
from kvcalc.timing.kernels import (
    Times,
    attention_time,
    latent_attention_time,
    matmul_time,
    prefill_attention_time,
    ring_time,
)
from kvcalc.timing.peaks import arithmetic, joining_link
from kvcalc.timing.profile import Profile

Kernel = TypeVar("Kernel", GemmKernel, AttentionKernel, LatentAttentionKernel, PrefillAttentionKernel)
NARROW = ("fp8", "int8", "fp4", "nvfp4", "mxfp8", "mxfp4")  # arithmetic on quantized activations
ANY = "any"
SHARED_READING = (8, 128)  # query heads of a group and elements of a head for which TensorRT-LLM first had a kernel
# Formats whose expert kernels stand in for each other: engines run fp8 experts of either scaling alike, and mxfp4 with
# wide or eight-bit activations, whichever is faster.
EQUALS = {"fp8": ("fp8-block",), "fp8-block": ("fp8",), "fp8-channel": ("fp8", "fp8-block"), "mxfp4": ("mxfp4-a8",)}
# Element types without measurements of their own, and whose kernels they run like.
ALIKE = {"fp16": "bf16", "mxfp8": "fp8", "int8": "fp8", "fp8-channel": "fp8", "fp4": "nvfp4", "mxfp4": "nvfp4"}
QUANTIZES = {"mxfp4-a8": "mxfp8"}  # kernels that take narrower activations than the weights' format says
WEIGHT_ONLY_4 = "mxfp4"  # four-bit experts that are widened were measured in this format alone


class Machine(NamedTuple):
    """What operators run on: the data sheet, its measured kernels, and the engine that launches them."""

    gpu: GpuSpec
    kernels: Kernels
    profile: Profile
    gpus_per_node: int | None = None

    @property
    def bandwidth(self) -> float:
        return self.gpu.memory_bandwidth_bytes_per_s


def operator_time(operator: Operator, machine: Machine) -> Times:
    """(latency, work) in seconds of one call."""
    kind = operator.kind
    if kind == "gemm":
        return _gemm(operator, machine)
    if kind in ("attention", "state"):
        return _attention(operator, machine)
    if kind == "latent_attention":
        return _latent(operator, machine)
    if kind == "prefill_attention":
        return _prefill(operator, machine)
    if kind == "experts":
        return _experts(operator, machine)
    if kind in ("elementwise", "embedding"):
        return 0.0, operator.bytes / ((machine.kernels.elementwise_share or 1) * machine.bandwidth)
    return _collective(operator, machine)


def _gemm(operator: Operator, machine: Machine) -> Times:
    dtype, peak = arithmetic(machine.gpu, operator.compute)
    quantized = (ANY,) if operator.bits <= 8 else ()
    row = _row(machine.kernels.gemm, operator.format, *quantized, dtype, ALIKE.get(dtype, dtype))
    share = row.bandwidth_share
    if operator.bits <= 8 and dtype not in NARROW:
        share *= machine.kernels.weight_only_share.get("4" if operator.bits <= 4 else "8", 1)
    return matmul_time(operator.bytes, operator.flops, machine.bandwidth, peak, row.latency_s, share, row.flops_share)


def _attention(operator: Operator, machine: Machine) -> Times:
    stored = operator.format, ALIKE.get(operator.format, operator.format)
    rows = next((found for dtype in stored if (found := _of(machine.kernels.attention, dtype))), None)
    rows = rows or machine.kernels.attention
    row = next((row for row in rows if row.library == machine.profile.library), rows[0])
    latency, work = attention_time(operator.bytes, machine.bandwidth, row.latency_s, row.bandwidth_share)
    return latency, work + _reread(operator, machine.profile)


def _reread(operator: Operator, profile: Profile) -> Quantity:
    """Kernels that treat each query head apart read the cache again for each further head of a group, from L2."""
    again = operator.group_heads - 1
    shared = (operator.group_heads, operator.head_dim) == SHARED_READING and not profile.reread_all
    if not profile.reread_bytes_per_s or again <= 0 or shared:
        return 0.0
    return again * operator.cache_bytes / profile.reread_bytes_per_s


def _latent(operator: Operator, machine: Machine) -> Times:
    row = _row(machine.kernels.latent_attention, operator.format, ALIKE.get(operator.format, operator.format))
    _, peak = arithmetic(machine.gpu, operator.compute)
    return latent_attention_time(
        operator.bytes,
        operator.flops,
        operator.context,
        machine.bandwidth,
        peak,
        row.latency_s,
        row.bandwidth_share,
        row.flops_share,
        row.token_s,
    )


def _prefill(operator: Operator, machine: Machine) -> Times:
    row = _row(machine.kernels.prefill_attention, operator.format, ALIKE.get(operator.format, operator.format))
    _, peak = arithmetic(machine.gpu, operator.compute)
    return prefill_attention_time(
        operator.flops,
        operator.bytes,
        machine.bandwidth,
        peak,
        row.latency_s,
        row.bandwidth_share,
        row.flops_share,
    )


def _experts(operator: Operator, machine: Machine) -> Times:
    """The fastest of the kernels that were measured for this GPU and format, with the experts that are really woken."""
    load = operator.experts
    if load is None:
        raise KvcalcError(f"operator {operator.name} has no experts", hint="make it with expert_operators")
    if not machine.profile.fused_experts:
        half = replace(
            operator,
            flops=operator.flops / 2,
            weight_bytes=operator.weight_bytes / 2,
            activation_bytes=operator.activation_bytes / 2,
        )
        latency, work = _gemm(half, machine)
        return 2 * latency, 2 * work
    dtype, _ = arithmetic(machine.gpu, operator.compute)
    usable = [row for row in machine.kernels.experts if row.chosen]
    widened = (WEIGHT_ONLY_4,) if operator.bits <= 4 and dtype not in NARROW else ()
    equals = EQUALS.get(operator.format, ())
    names = (operator.format, *equals, *widened, dtype, ALIKE.get(dtype, dtype), ANY)
    rows = next((found for name in names if (found := [row for row in usable if row.dtype == name])), usable)
    shares = machine.kernels.experts_flops_share
    flops_share = shares[max((key for key in shares if int(key) <= load.experts), key=int)]
    moved = operator.weight_bytes + operator.activation_bytes
    best: Quantity = None
    for row in rows:
        peak = arithmetic(machine.gpu, QUANTIZES.get(row.dtype, operator.compute))[1]
        latency, work = matmul_time(
            moved, operator.flops, machine.bandwidth, peak, row.latency_s, row.bandwidth_share, flops_share
        )
        best = latency + work if best is None else least(best, latency + work)
    first = min(row.latency_s for row in rows)
    return first, best - first


def _collective(operator: Operator, machine: Machine) -> Times:
    link = joining_link(machine.gpu, operator.ranks, machine.gpus_per_node)
    fallback, *own = _all_reduce_rows(operator.ranks, link.name, machine)
    if operator.kind != "all_reduce":
        sent = operator.link_bytes * (operator.ranks - 1) / operator.ranks
        return fallback.latency_s, sent / ((fallback.link_share or 1) * link.bandwidth_bytes_per_s)
    best: Quantity = None
    for row in (fallback, *own):
        latency, work = ring_time(
            operator.link_bytes,
            operator.ranks,
            link.bandwidth_bytes_per_s,
            row.latency_s,
            row.link_share or 1,
            row.sqrt_s,
        )
        best = latency + work if best is None else least(best, latency + work)
    first = min(row.latency_s for row in (fallback, *own))
    return first, best - first


def _all_reduce_rows(gpus: int, link: str, machine: Machine) -> tuple[AllReduceKernel, ...]:
    """NCCL's row, and the engine's own if it has one, for the measured group size nearest to this one."""
    rows = machine.kernels.all_reduce
    libraries = ("pcie",) if link == "pcie" else ("nccl", machine.profile.library)
    found = []
    for library in libraries:
        mine = [row for row in rows if row.library == library and row.link_share is not None]
        if mine:
            found.append(min(mine, key=lambda row: abs(row.gpus - gpus)))
    return tuple(found)


def _of(rows: tuple[Kernel, ...], dtype: str) -> tuple[Kernel, ...]:
    return tuple(row for row in rows if row.dtype == dtype)


def _row(rows: tuple[Kernel, ...], *dtypes: str) -> Kernel:
    """The first row of the first of these element types that has one; else the first row, bf16's."""
    usable = [row for row in rows if not isinstance(row, GemmKernel) or row.graph]
    for dtype in dtypes:
        for row in usable:
            if row.dtype == dtype:
                return row
    return usable[0]
