"""GpuSpec: one accelerator, with a source on each number."""

from pydantic import Field

from kvcalc.specs.base import Frozen, Positive, Source


class Link(Frozen):
    """A way out of the GPU, one direction."""

    name: str  # nvlink | pcie | xgmi | network
    bandwidth_bytes_per_s: float = Field(gt=0)  # one direction
    note: str | None = None


class Price(Frozen):
    """What an hour of one GPU costs, on demand."""

    low_usd_per_hour: float = Field(gt=0)
    median_usd_per_hour: float = Field(gt=0)
    high_usd_per_hour: float = Field(gt=0)
    date: str
    source: str


class GpuSpec(Frozen):
    """One accelerator. FLOP/s are dense, never sparse; bandwidths are decimal and one direction."""

    name: str  # h100-sxm
    title: str  # NVIDIA H100 SXM5 80GB
    vendor: str
    architecture: str
    aliases: tuple[str, ...] = ()
    memory_bytes: Positive  # the nameplate: "80 GB"
    usable_memory_bytes: Positive  # what the driver reports as total; engines take their fraction of this
    memory_bandwidth_bytes_per_s: float = Field(gt=0)
    peak_flops: dict[str, float]  # by element type: {"bf16": 989e12}
    links: tuple[Link, ...] = ()
    gpus_per_node: Positive = 1
    unified_memory: bool = False  # shares the host's memory: what else runs there is unknown
    l2_bytes: Positive | None = None
    sm_count: Positive | None = None
    compute_capability: str | None = None
    launch_year: Positive | None = None
    tdp_w: float | None = None
    sources: dict[str, Source] = Field(default={})  # by field; "*" covers the rest
    notes: tuple[str, ...] = ()  # conflicts between sources, and how they were settled

    def link(self, name: str) -> Link | None:
        return next((link for link in self.links if link.name == name), None)
