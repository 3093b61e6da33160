"""Routed experts: all that a step wakes, in the fastest of the measured kernels.

Unit: s
Source: as a multiplication (`matmul.py`), with the constants of [[experts]] in `gpu_specs/kernels/`
"""

from dataclasses import replace
from functools import reduce
from math import log

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.counting.work import Operator
from kvcalc.errors import KvcalcError
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.matmul import gemm_seconds, matmul_time
from kvcalc.timing.operators.rows import ALIKE, ANY, NARROW
from kvcalc.timing.operators.smooth import Times
from kvcalc.timing.peaks import arithmetic

# Formats whose expert kernels stand in for each other: engines run fp8 experts of either scaling alike, and mxfp4 with
# wide or eight-bit activations, whichever is faster.
EQUALS = {"fp8": ("fp8-block",), "fp8-block": ("fp8",), "fp8-channel": ("fp8", "fp8-block"), "mxfp4": ("mxfp4-a8",)}
QUANTIZES = {"mxfp4-a8": "mxfp8"}  # kernels that take narrower activations than the weights' format says
# Four-bit experts that are widened were measured as mxfp4 alone; where that kernel is slow, as any other's: int4.
WEIGHT_ONLY_4 = ("mxfp4", "int4")

# The share of models of many experts is that of 256 rows an expert, which 8,192 tokens give those that choose 4 of 128
# or 8 of 256. With more (8 of 128, replicas that share experts) tiles fill: at MANY_ROWS they are those of a model of
# few experts. deepseek-ai/DeepGEMM has 1.2 to 1.3 PFLOP/s on H800 at 4,096 to 8,192 rows a group.
FEW_ROWS, MANY_ROWS = 256, 2048
# Rows of a tile of DeepGEMM's contiguous layout, and what it takes: vLLM 0.11.1 to 0.14 on Hopper, where scales are
# powers of two by default (pull request 26197) and TritonOrDeepGemmExperts then never falls back to Triton; from eight
# slices on it does (29346). compute_aligned_M gives every expert the rows that may be lacking to a whole tile.
TILE_ROWS, PADDED, MOST_PARTS = 128, "fp8-block", 7


def shared_tiles(shares: dict[int, float], experts: int, rows: Quantity) -> Quantity:
    """The share of the peak that experts reach: by how many there are, and by the rows of one that is woken.

    >>> [round(shared_tiles({1: 0.5, 32: 0.2}, 256, rows), 2) for rows in (256, 1024, 4096)]
    [0.2, 0.37, 0.5]
    >>> round(shared_tiles({1: 0.5, 32: 0.2}, 8, 256), 2)
    0.5
    """
    share = shares[max(least_held for least_held in shares if least_held <= experts)]
    most = max(share, shares[min(shares)])
    if most == share:
        return share
    filled = least(greatest(rows / FEW_ROWS, 1.0), MANY_ROWS / FEW_ROWS)
    return share * filled ** (log(most / share) / log(MANY_ROWS / FEW_ROWS))


def padded(operator: Operator) -> Operator:
    """The same where each expert's rows are filled up to whole tiles and all experts are read.

    >>> from kvcalc.counting.work import ExpertLoad
    >>> one = Operator("experts", "experts", 1, flops=64, rows=64, experts=ExpertLoad(8, 2, 32, 10.0))
    >>> many = padded(one)
    >>> many.rows, many.flops, many.weight_bytes
    (1080, 1080.0, 80.0)
    """
    load = operator.experts
    assert load is not None
    held = load.experts // load.ranks
    rows = operator.rows + held * (TILE_ROWS - 1)
    more = rows / operator.rows
    return replace(
        operator,
        rows=rows,
        flops=operator.flops * more,
        activation_bytes=operator.activation_bytes * more,
        weight_bytes=held * load.expert_bytes,
    )


def experts_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work): the fastest of the kernels that were measured for this GPU and format."""
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
        latency, work = gemm_seconds(half, machine)
        return 2 * latency, 2 * work
    pads = machine.profile.padded_experts and operator.format == PADDED and load.parts <= MOST_PARTS
    if pads:
        operator = padded(operator)
    dtype, _ = arithmetic(machine.gpu, operator.compute)
    usable = [row for row in machine.kernels.experts if row.chosen]
    widened = WEIGHT_ONLY_4 if operator.bits <= 4 and dtype not in NARROW else ()
    alike = (operator.format, *EQUALS.get(operator.format, ()))
    names = (*((name,) for name in widened), (dtype,), (ALIKE.get(dtype, dtype),), (ANY,))
    rows = next((found for some in (alike, *names) if (found := [one for one in usable if one.dtype in some])), usable)
    shares = {int(least_held): share for least_held, share in machine.kernels.experts_flops_share.items()}
    filled = MANY_ROWS if pads else operator.rows / load.woken
    flops_share = machine.sustained_share * shared_tiles(shares, load.experts, filled)
    totals: list[Quantity] = []
    for row in rows:
        peak = arithmetic(machine.gpu, QUANTIZES.get(row.dtype, operator.compute))[1]
        latency, work = matmul_time(
            operator.bytes,
            operator.flops,
            row.bandwidth_share * machine.bandwidth,
            flops_share * peak,
            row.latency_s,
        )
        totals.append(latency + work)
    first = min(row.latency_s for row in rows)
    return first, reduce(least, totals) - first
