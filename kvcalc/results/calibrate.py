"""The answer to `kvcalc calibrate`: what a device does, measured by small benchmarks, and how steady it was."""

from typing import ClassVar

from kvcalc.results.base import Report
from kvcalc.specs.base import Frozen


class Rate(Frozen):
    """time = latency + bytes / bandwidth"""

    latency_s: float
    bandwidth_bytes_per_s: float


class LinearRow(Rate):
    """Matrix products on this many rows. `plain` is a large product with weights in their usual order."""

    dtype: str
    rows: int
    plain_bandwidth_bytes_per_s: float | None = None  # None: the weights are never reordered here
    times_s: tuple[float, ...]  # what latency and bandwidth were fitted to: a product of each size
    error: float  # mean of |fitted / measured - 1|


class Tiling(Frozen):
    """How one program of the attention kernel goes over its tokens."""

    tokens: int  # of a tile
    warps: int = 4
    stages: int = 3  # of the pipeline: one more than the tiles of keys and values in flight


class AttentionRow(Rate):
    """Decode attention over pages, for one shape of heads: the latency is of one layer's call."""

    dtype: str
    group: int  # query heads of one KV head
    head_dim: int
    page_size: int
    tiling: Tiling | None = None  # of the kernel, where it has one: the quickest of those tried
    times_s: tuple[float, ...]  # fitted to: one layer's call for each batch and context
    error: float


class GlueRow(Frozen):
    """What is neither a product nor attention: norms, rotary, cache write, gate, and the sampler."""

    dtype: str
    cold: bool  # with weights passing through the caches in between, as in a model; else by themselves
    qk_norm: bool  # with queries and keys normalised
    step_s: float  # once a step
    layer_s: float  # once a layer
    bandwidth_bytes_per_s: float | None  # of what the layers' pieces read and write; None: hidden by the rest
    sampler_bandwidth_bytes_per_s: float | None  # of the logits
    times_s: tuple[float, ...]  # fitted to: a step of each decoder and batch
    error: float


class CalibrateResult(Frozen):
    device: str
    kind: str  # cpu | cuda
    date: str  # ISO 8601, UTC
    versions: dict[str, str]
    memory_bytes: int
    compute_capability: str | None = None
    processors: int | None = None  # streaming multiprocessors, or threads of a CPU
    l2_bytes: int | None = None
    read_bandwidth_bytes_per_s: float
    copy_bandwidth_bytes_per_s: float  # read and written together
    peak_flops: dict[str, float]
    dispatch_s: float  # from one tiny kernel to the next: launched on a CPU, in a graph on a GPU
    linear: Rate  # one row
    attention: Rate  # the first shape below
    linear_rows: tuple[LinearRow, ...]
    attention_rows: tuple[AttentionRow, ...]
    glue_rows: tuple[GlueRow, ...]
    spread: dict[str, float]  # 90th over 10th percentile of the repeated windows, by benchmark
    state_before: dict[str, str]
    state_after: dict[str, str]
    quiet: bool  # the device's own bandwidth stayed the same from start to end, and nobody else worked meanwhile
    spec_file: str | None = None


class CalibrateReport(Report):
    command: ClassVar[str] = "calibrate"
    result: CalibrateResult
