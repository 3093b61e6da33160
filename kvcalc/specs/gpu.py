"""GpuSpec: one accelerator, with a source on each number."""

from typing import Annotated, Literal

from kvcalc.specs.base import Assumption, Frozen, Positive, Source, field
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.constraints import Checked, Within
from kvcalc.specs.formats import ELEMENT_BITS
from kvcalc.specs.kernels import Kernels
from kvcalc.specs.price import Instance
from kvcalc.specs.price import Price as Price

# A peak that holds for every four-bit (six-, eight-bit) format is filed under the plain name.
PEAK_FALLBACK = {"nvfp4": "fp4", "mxfp4": "fp4", "mxfp6": "fp6", "mxfp8": "fp8"}
PEAK_NAMES = ELEMENT_BITS.keys() | PEAK_FALLBACK.keys()

Rate = Annotated[float, Within(gt=0, le=1e24)]


def _known_element_types(peaks: dict[str, float]) -> dict[str, float]:
    unknown = sorted(peaks.keys() - PEAK_NAMES)
    if unknown or not peaks:
        wanted = ", ".join(sorted(PEAK_NAMES))
        raise ValueError(f"{f'unknown element type {unknown[0][:40]!r}' if unknown else 'empty'}; use {wanted}")
    return peaks


class Link(Frozen):
    """A way out of the GPU, one direction."""

    name: str  # nvlink | xgmi | pcie | c2c | ici | neuronlink | xelink | ethernet | network
    bandwidth_bytes_per_s: Rate  # one direction, decimal: half of what NVLink data sheets print
    gpus: Positive | None = None  # how many GPUs it joins; None: all of a node (network: any number)
    optional: bool = False  # an accessory, as a bridge between two cards: there only where it was bought
    note: str | None = None


class MemorySetting(Frozen):
    """How much of its memory a GPU gives to programs elsewhere than on the system that `usable_memory_bytes` is of."""

    system: str  # Windows; older macOS; Linux, ttm.pages_limit raised
    usable_memory_bytes: Positive
    by_default: bool = True  # as that system comes; False: the most that its owner can set
    note: str | None = None


Segment = Literal["data-center", "workstation", "desktop", "laptop", "shared-memory"]


class GpuSpec(Frozen):
    """One accelerator. FLOP/s are dense, never sparse; bandwidths are decimal and one direction."""

    name: str  # h100-sxm
    title: str  # NVIDIA H100 SXM5 80GB
    vendor: str
    architecture: str
    segment: Segment | None = None  # the machines that it is made for; shared-memory: the host's memory is its own
    aliases: tuple[str, ...] = ()
    memory_bytes: Positive  # the nameplate: "80 GB"
    usable_memory_bytes: Positive  # the total that a program is told (cudaMemGetInfo); engines take their share of it
    memory_settings: tuple[MemorySetting, ...] = ()  # the same total on other systems, and how far it can be raised
    memory_bandwidth_bytes_per_s: Rate
    peak_flops: Annotated[
        dict[str, Rate], Checked(_known_element_types)
    ]  # by element type, with 32-bit accumulation: {"bf16": 989e12}
    links: tuple[Link, ...] = ()
    gpus_per_node: Positive = 1
    split_over: Positive = 1  # cards of one host that are taken as one: llama.cpp splits the layers over them
    unified_memory: bool = False  # shares the host's memory: what else runs there is unknown
    l2_bytes: Positive | None = None
    sm_count: Positive | None = None  # streaming multiprocessors; AMD compute units, Intel Xe cores, Apple GPU cores
    compute_capability: str | None = None
    launch_year: Positive | None = None
    tdp_w: Rate | None = None
    kernels: Kernels | None = None  # a user's own, measured; those of the catalog are in kernels/
    calibration: Calibration | None = None  # a user's own: `kvcalc calibrate --from`
    price: Price | None = None  # a user's own; the list prices of the catalog are in prices.toml
    instance: Instance | None = None  # the cloud's machine that it was named by
    # By field, "peak_flops.fp8" before "peak_flops"; "*" is the rest.
    sources: dict[str, Source] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # conflicts between sources, and how they were settled
    assumptions: tuple[Assumption, ...] = ()  # which board a bare product name was taken for

    def link(self, name: str) -> Link | None:
        return next((link for link in self.links if link.name == name), None)

    def peak(self, dtype: str) -> float | None:
        """Dense FLOP/s of the matrix units in this element type; None where the hardware has no such rate."""
        return self.peak_flops.get(dtype) or self.peak_flops.get(PEAK_FALLBACK.get(dtype, dtype))

    def source_of(self, field: str) -> Source | None:
        """The source of a number: "peak_flops.fp8", else "peak_flops", else "*"."""
        return self.sources.get(field) or self.sources.get(field.split(".")[0]) or self.sources.get("*")
