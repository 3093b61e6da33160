"""Lower bounds of a step: of the whole, as the lessons have it, and operator by operator.

    bound           max(Σ bytes / BW, Σ FLOPs / P)   weights and cache alone
    operator bound  Σ over operators of max(bytes / BW, FLOPs / P)   activations and links too

The first assumes that all reading overlaps all computing, the second that operators run one after the other.

Unit: s
Source: Williams, Waterman and Patterson 2009 (roofline); Patarasuk and Yuan 2009 for what an all-reduce moves
"""

from collections.abc import Iterable
from math import ceil
from typing import Literal, NamedTuple

from kvcalc.counting.arrays import Quantity, greatest
from kvcalc.counting.work import Operator
from kvcalc.formulas.step import experts_touched
from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.peaks import arithmetic, host_link, joining_link

Limit = Literal["memory", "compute", "link"]
LINKED = ("all_reduce", "all_to_all", "send")


class Bound(NamedTuple):
    """Bytes and FLOPs of one GPU in one step, and the times that they cannot go below."""

    weight_bytes: Quantity
    cache_bytes: Quantity
    flops: Quantity
    memory_time_s: Quantity
    compute_time_s: Quantity

    @property
    def bytes(self) -> Quantity:
        return self.weight_bytes + self.cache_bytes

    @property
    def time_s(self) -> Quantity:
        return greatest(self.memory_time_s, self.compute_time_s)

    @property
    def limit(self) -> Literal["memory", "compute"]:
        """Of a single point."""
        return "memory" if self.memory_time_s >= self.compute_time_s else "compute"


def bound(operators: Iterable[Operator], gpu: GpuSpec) -> Bound:
    """The lessons' bound: weights and cache at full bandwidth against FLOPs at full peak.

    The embedding table is not read, idle towers are not in the list, and experts count as those that the estimate wakes
    too, `counting.work.woken`. (`--engine ideal` counts every parameter instead, with the formulas of `formulas.step`.)

    >>> from kvcalc.counting.work import Operator
    >>> from kvcalc.catalog.gpus import load_gpu
    >>> reading = Operator("weights", "gemm", 1, flops=0, weight_bytes=3.35e9)
    >>> bound([reading], load_gpu("h100-sxm")).time_s
    0.001
    """
    weights: Quantity = 0
    cache: Quantity = 0
    flops: Quantity = 0
    compute: Quantity = 0
    for operator in operators:
        weights = weights + operator.count * operator.weight_bytes
        cache = cache + operator.count * operator.cache_bytes
        flops = flops + operator.count * operator.flops
        compute = compute + operator.count * operator.flops / arithmetic(gpu, operator.compute)[1]
    memory = (weights + cache) / gpu.memory_bandwidth_bytes_per_s
    return Bound(weights, cache, flops, memory, compute)


def operator_bound(operator: Operator, gpu: GpuSpec, gpus_per_node: int | None = None) -> Quantity:
    """Seconds that all calls of one operator cannot go below."""
    if operator.kind == "host":
        return operator.count * operator.link_bytes / host_link(gpu).bandwidth_bytes_per_s
    if operator.kind in LINKED:
        link = joining_link(gpu, operator.ranks, gpus_per_node)
        return operator.count * handed_over(operator, gpus_per_node or gpu.gpus_per_node) / link.bandwidth_bytes_per_s
    memory = operator.bytes / gpu.memory_bandwidth_bytes_per_s
    return operator.count * greatest(memory, operator.flops / arithmetic(gpu, operator.compute)[1])


def handed_over(operator: Operator, gpus_per_node: int) -> Quantity:
    """What crosses the slowest link that joins the ranks, of what one GPU hands to a collective.

    A ring moves all but one rank's part, twice for a sum. Rows of an all-to-all that cross to each node once go to as
    many of the nodes as hold one of their experts, and from there over the faster link.

    Unit: bytes
    Source: Patarasuk and Yuan 2009 for rings; DeepSeek-AI 2024 (DeepSeek-V3), section 3.2.2, for rows once a node

    >>> round(handed_over(Operator("x", "all_to_all", 1, link_bytes=8e6, ranks=32), 8))
    7750000
    >>> round(handed_over(Operator("x", "all_to_all", 1, link_bytes=8e6, ranks=32, top_k=8), 8))
    3008983
    """
    if operator.kind == "send":
        return operator.link_bytes
    if operator.top_k and operator.ranks > gpus_per_node:
        nodes = ceil(operator.ranks / gpus_per_node)
        reached, of_nodes = (experts_touched(among, 1, operator.top_k) for among in (operator.ranks, nodes))
        return operator.link_bytes * of_nodes / reached * (nodes - 1) / nodes
    share = (operator.ranks - 1) / operator.ranks
    return (2 if operator.kind == "all_reduce" else 1) * share * operator.link_bytes


def operator_bound_total(operators: Iterable[Operator], gpu: GpuSpec, gpus_per_node: int | None = None) -> Quantity:
    """operator_bound_s: the operators one after the other, each at the roof that binds it."""
    total: Quantity = sum(operator_bound(operator, gpu, gpus_per_node) for operator in operators)
    return total


def operator_limit(operator: Operator, gpu: GpuSpec) -> Limit:
    """What binds one operator, of a single point."""
    if operator.kind in (*LINKED, "host"):
        return "link"
    memory = operator.bytes / gpu.memory_bandwidth_bytes_per_s
    return "memory" if memory >= operator.flops / arithmetic(gpu, operator.compute)[1] else "compute"
