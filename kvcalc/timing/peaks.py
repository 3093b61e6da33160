"""Which arithmetic a GPU really does for an element type, and how fast the link is that joins some GPUs.

Source: the data sheets that each GPU's spec names; which type stands for a missing one is a judgement on what engines'
kernels do
"""

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.gpu import GpuSpec, Link

# Where the hardware lacks an element type, weights are widened to the next one it has; activations stay wide.
WIDER = {
    "nvfp4": "fp8", "mxfp4": "fp8", "fp4": "fp8", "fp6": "fp8", "mxfp6": "fp8", "mxfp8": "fp8",
    "fp8": "bf16", "int8": "bf16", "int4": "int8", "bf16": "fp16", "fp16": "bf16", "tf32": "fp32", "fp32": "tf32",
}  # fmt: skip
GEFORCE = "GeForce"  # the product line
OUTSIDE = ("network", "roce")
BETWEEN_NODES = (*OUTSIDE, "ici", "neuronlink")  # the last two join chips of a pod whatever board they are on
TO_THE_HOST = ("c2c",)
HOST_LINKS = ("c2c", "pcie")  # the fastest first


def arithmetic(gpu: GpuSpec, dtype: str) -> tuple[str, float]:
    """The element type that the GPU computes in, and its dense peak in FLOP/s.

    Raises:
        KvcalcError: the spec has no peak for this element type or any wider one.

    Unit: FLOP/s
    """
    tried: list[str] = []
    wanted = dtype
    while wanted not in tried:
        peak = gpu.peak(wanted)
        if peak is not None:
            return wanted, peak
        tried.append(wanted)
        wanted = WIDER.get(wanted, wanted)
    single = gpu.peak("fp32")
    if single is not None and "fp16" in tried:  # no matrix units, and no fast half precision: cards before Volta
        return "fp32", single
    known = ", ".join(gpu.peak_flops)
    raise KvcalcError(f"GPU {gpu.name} has no peak for {dtype}", hint=f"add peak_flops.{dtype} to its spec ({known})")


def networked(gpu: GpuSpec, bandwidth_bytes_per_s: float | None) -> GpuSpec:
    """The GPU in a server whose network is not the usual one; bytes a second of one GPU, one direction."""
    if bandwidth_bytes_per_s is None:
        return gpu
    others = tuple(link for link in gpu.links if link.name not in OUTSIDE)
    return replace(gpu, links=(*others, Link(name="network", bandwidth_bytes_per_s=bandwidth_bytes_per_s)))


def joining_link(gpu: GpuSpec, gpus: int, gpus_per_node: int | None = None) -> Link:
    """The link over which this many GPUs talk: the fastest inside a node, else the network between nodes.

    Raises:
        KvcalcError: the spec has no such link.
    """
    if gpus <= (gpus_per_node or gpu.gpus_per_node):
        reaching = [link for link in gpu.links if link.name not in OUTSIDE + TO_THE_HOST and _joins(link, gpus)]
    else:
        reaching = [link for link in gpu.links if link.name in BETWEEN_NODES]
    if not reaching:
        raise KvcalcError(f"GPU {gpu.name} has no link that joins {gpus} GPUs", hint="use fewer, or add [[links]]")
    return max(reaching, key=lambda link: link.bandwidth_bytes_per_s)


def peer_access(gpu: GpuSpec) -> bool:
    """Whether GPUs reach each other's memory over PCIe: NVIDIA's driver refuses it to GeForce cards.

    Without it what one tells another goes through the host's memory.
    """
    return not (gpu.vendor == "NVIDIA" and GEFORCE in gpu.title)


def _joins(link: Link, gpus: int) -> bool:
    return (link.gpus is None or gpus <= link.gpus) and not link.optional


def host_link(gpu: GpuSpec) -> Link:
    """The way to the host's memory.

    Raises:
        KvcalcError: the spec has none.
    """
    found = next((link for name in HOST_LINKS if (link := gpu.link(name))), None)
    if found is None:
        raise KvcalcError(f"GPU {gpu.name} has no link to its host", hint="add [[links]] with name pcie to its spec")
    return found
