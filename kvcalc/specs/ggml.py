"""GgmlKernels: what llama.cpp's own kernels reach on one class of devices, under one backend, since one build.

Quantized weights fall into classes whose kernels run alike: `legacy` (q4_0, q5_1, q8_0, iq4_nl: blocks of 32 with a
scale), `k` (q4_k and the other k- and i-quants: superblocks), `mx` (mxfp4, nvfp4) and `plain` (f16, bf16, f32).

    one row        bytes / (bandwidth_share · BW)
    more rows      bytes / (share · BW) + FLOPs / (flops_share · peak) · (rows + fill_rows) / rows
    experts        reading and computing overlap, √(read² + compute²); compute with the rows of one woken expert,
                   `tile_rows` and experts_flops_share; columns of its tiles that hold no token cost idle_share of one
                   that does, and tiles are up to `widest_tile` columns wide
    cache          bytes / (cache_share · BW)
    prompts        FLOPs / (attention_flops_share · P_fp16); without flash attention the scores go to memory and back
    states         FLOPs / (state_share · P_fp32) of tokens beyond a sequence's first: no matrix units
    launches       launch_s each: two a multiplication (its input is quantized first), some more a layer
"""

from typing import Annotated, Literal

from kvcalc.specs.base import Count, Frozen
from kvcalc.specs.constraints import Within

Share = Annotated[float, Within(gt=0, le=4)]  # above 1 where caches help or peaks are understated
Seconds = Annotated[float, Within(ge=0, le=10)]
Rows = Annotated[float, Within(ge=0, le=4096)]
Backend = Literal["cuda", "hip", "vulkan", "metal", "sycl"]
Quants = Literal["legacy", "k", "mx", "plain"]


class GgmlKernels(Frozen):
    """One row of the data file."""

    name: str
    backend: Backend
    since: str  # the first month of its builds, 2024-06
    vendor: str | None = None  # of the devices that it holds for; None: any
    compute_capability: tuple[str, ...] = ()  # none: any
    unified_memory: bool | None = None  # None: either
    peak: Literal["int8", "fp16"]  # whose data-sheet rate multiplications of quantized weights follow
    bandwidth_share: dict[Quants, Share]
    prompt_bandwidth_share: dict[Quants, Share]
    flops_share: dict[Quants, Share]  # plain: of the fp16 peak
    sixteens_share: Share = 1  # of flops_share: formats with a scale for each 16 weights
    fill_rows: Rows
    experts_flops_share: Share  # of flops_share
    tile_rows: Rows
    widest_tile: Annotated[int, Within(gt=0, le=4096)]  # columns, by the kernels' source: not fitted
    idle_share: Share
    cache_share: Share
    cache_share_no_flash: Share
    attention_flops_share: Share
    attention_flops_share_no_flash: Share
    scores_passes: float  # how often fp32 scores pass the memory without flash attention
    elementwise_share: Share
    launch_s: Seconds  # of a step with one row: graphs hide most of it where there are any
    many_launch_s: Seconds  # of one with more
    experts_s: Seconds  # once a layer with experts: routing, sorting
    state_s: Seconds  # once a recurrent layer
    state_share: Share  # of the fp32 peak, by further tokens of a sequence, which walk through the state in turn
    evidence: str
    points: Count | None = None
    error: float | None = None
    note: str | None = None


class Skips(Frozen):
    """What a backend's flash attention leaves out of what the mask hides."""

    since: str  # month of the build
    tokens: int  # of a ubatch, from which on
    behind: bool  # cells behind a window too, and not only later tokens


class Split(Frozen):
    """A layer split, by runs of one model on one device and on several."""

    hop_s: Seconds  # from one device to the next, whatever a row weighs
    parameters: tuple[float, ...]  # of a stage, the fewest first
    busy: tuple[Share, ...]  # of the stages' time, what is work while ubatches follow each other, at these parameters
    evidence: str
    points: Count | None = None


class OnHost(Frozen):
    """What stays in the host's memory: shares of its bandwidth, and of the link to the device."""

    share: Share  # that the CPU reads weights at
    experts_share: Share  # experts, many small products
    copy_share: Share  # of the link, for weights that are copied to the device
    switch_s: Seconds  # a graph is split where the device changes
    by_hand: tuple[str, ...]
    note: str


class Parts(Frozen):
    """A model that is not on one device alone."""

    split: Split
    host: OnHost


class LocalSetting(Frozen):
    """How llama.cpp was built and started, as far as its kernels depend on it."""

    backend: Backend
    month: str  # of the build: 2026-05
    flash_attention: bool
    skips: Skips | None = None  # None: its kernels of attention compute what the mask hides too
