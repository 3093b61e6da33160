"""How the GPUs of one host talk, as far as memory is concerned: communicators and their buffers differ by it.

Source: a judgement on measured budgets: communicators fall into these four classes
"""

from kvcalc.specs.gpu import GpuSpec

NVLINK_BYTES_PER_S = 250e9  # one direction: a switched NVLink, not a bridge between two cards


def interconnect(gpu: GpuSpec) -> str:
    """amd, pcie, nvlink or nvlink_blackwell."""
    if gpu.vendor.upper() == "AMD":
        return "amd"
    link = gpu.link("nvlink")
    if link is None or link.gpus is not None or link.bandwidth_bytes_per_s < NVLINK_BYTES_PER_S:
        return "pcie"
    return "nvlink_blackwell" if gpu.architecture.lower().startswith("blackwell") else "nvlink"
