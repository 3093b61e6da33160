"""Matrix multiplications: a latency, and bytes and FLOPs at shares of the data sheet's rates.

Unit: s
Source: Williams, Waterman and Patterson 2009 (roofline), at measured shares of its roofs: `gpu_specs/kernels/`,
[[gemm]]; how they bend into each other: `smooth.py`
"""

from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Operator
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.rows import ALIKE, ANY, NARROW, row_of
from kvcalc.timing.operators.smooth import Times, smooth_maximum
from kvcalc.timing.peaks import arithmetic

# Where no kernel with one scale a tensor serves a step, the one with scales by block does: Blackwell's were measured
# with a quantization of the inputs that engines fuse.
SCALED = {"fp8": ("fp8-block",)}


def matmul_time(
    bytes_moved: Quantity,
    flops: Quantity,
    bandwidth: float,
    peak: Quantity,
    latency: float,
    walk_s: Quantity = 0.0,
) -> Times:
    """A multiplication, or all experts of a layer: bytes at the bandwidth that it reaches against FLOPs at that peak.

    `walk_s` is the walk along the inputs of a multiplication that runs alone; in a step engines split it.

    >>> latency, work = matmul_time(3.35e6, 0, 0.9 * 3.35e12, 0.8 * 989e12, 4e-6)
    >>> round((latency + work) * 1e6, 2)
    5.11
    """
    return latency, smooth_maximum(bytes_moved / bandwidth, flops / peak, walk_s)


def gemm_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work) of one call; weights that are widened cost a share of the bandwidth."""
    dtype, peak = arithmetic(machine.gpu, operator.compute)
    quantized = (ANY,) if operator.bits <= 8 else ()
    row = row_of(
        machine.kernels.gemm, operator.format, *quantized, dtype, *SCALED.get(dtype, ()), ALIKE.get(dtype, dtype)
    )
    share = row.bandwidth_share
    if operator.bits <= 8 and dtype not in NARROW:
        share *= machine.kernels.weight_only_share.get("4" if operator.bits <= 4 else "8", 1)
    flops_share = row.flops_share * machine.sustained_share
    return matmul_time(operator.bytes, operator.flops, share * machine.bandwidth, flops_share * peak, row.latency_s)
