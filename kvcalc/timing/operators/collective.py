"""What GPUs tell each other: all-reduces, all-to-alls, sends between stages.

Unit: s
Source: `ring_time` for the form; `gpu_specs/kernels/`, [[all_reduce]], for the constants; those in this file say theirs
"""

from math import ceil, log2

from kvcalc.counting.arrays import Quantity
from kvcalc.counting.work import Operator
from kvcalc.errors import KvcalcError
from kvcalc.specs.kernels import AllReduceKernel
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.smooth import Times
from kvcalc.timing.peaks import OUTSIDE, host_link, joining_link, peer_access
from kvcalc.timing.roofline import handed_over

LINK_SHARE = 0.8  # of a link's bandwidth, what a bulk copy reaches
LINK_SHARE_SOURCE = "a judgement: all-reduces over NVLink reach 0.7 to 0.85 of the data sheet at large messages"
# From node to node, a round: 122 all-reduces of a step of 16 GPUs in two nodes took 112 µs more each, and those of
# gpt-oss-120b and Gemma 4 26B on two GB10 (kubis.ai) 80 and 72 µs at most. Bare ones take 20 to 75 µs in nccl-tests.
HOP_S = 1e-4
ROOT_BYTES = 1_000_000  # the message whose climb to full bandwidth takes `sqrt_s`


def ring_time(
    message_bytes: Quantity, gpus: int, link: float, latency: float, link_share: float, sqrt_s: float = 0
) -> Times:
    """An all-reduce: each link carries 2 (n - 1) / n of the message; the root term is the climb to full bandwidth.

    Source: Patarasuk and Yuan 2009 (bandwidth-optimal all-reduce) for the ring; the root term halves the error
    between 0.1 and 10 MB.

    >>> latency, work = ring_time(1e6, 2, 100e9, latency=5e-6, link_share=1.0, sqrt_s=2e-6)
    >>> round((latency + work) * 1e6, 2)
    17.0
    """
    moved = 2 * (gpus - 1) / gpus * message_bytes
    return latency, moved / (link_share * link) + sqrt_s * (message_bytes / ROOT_BYTES) ** 0.5


def collective_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work) over the link that joins the ranks."""
    link = joining_link(machine.gpu, operator.ranks, machine.gpus_per_node)
    row = _row(operator, link.name, machine)
    latency = row.latency_s + _hops(operator, link.name, machine) * HOP_S
    rate, share = link.bandwidth_bytes_per_s, row.link_share or 1
    if operator.kind != "all_reduce":
        return latency, handed_over(operator, machine.gpus_per_node or machine.gpu.gpus_per_node) / (share * rate)
    return ring_time(operator.link_bytes, operator.ranks, rate, latency, share, row.sqrt_s)


def _hops(operator: Operator, link: str, machine: Machine) -> int:
    """Rounds of messages from node to node: those of a tree over the nodes, for all-reduces, which all wait for.

    What experts' ranks and stages send is overlapped: published clusters come out with the links' data sheets alone.
    """
    if link not in OUTSIDE or operator.kind != "all_reduce":
        return 0
    nodes = ceil(operator.ranks / (machine.gpus_per_node or machine.gpu.gpus_per_node))
    return max(1, ceil(log2(max(nodes, 1))))


def _row(operator: Operator, link: str, machine: Machine) -> AllReduceKernel:
    """The engine's own row for all-reduces, which includes what it falls back to; NCCL's for the rest and the others.

    Over PCIe by whether the cards reach each other. Of several group sizes the nearest to this one.
    """
    own = (machine.profile.library,) if operator.kind == "all_reduce" else ()
    libraries: tuple[str, ...] = (*own, "nccl")
    if link == "pcie":
        libraries = ("pcie",) if peer_access(machine.gpu) else ("pcie-host",)
    rows = [row for row in machine.kernels.all_reduce if row.link_share is not None]
    for library in libraries:
        mine = [row for row in rows if row.library == library]
        if mine:
            return min(mine, key=lambda row: abs(row.gpus - operator.ranks))
    raise KvcalcError(f"no all-reduce over {link} was measured", hint="add [[all_reduce]] to the kernels of the GPU")


def host_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work) of weights that stay in the host's memory and cross its link in every pass."""
    return 0.0, operator.link_bytes / (LINK_SHARE * host_link(machine.gpu).bandwidth_bytes_per_s)
