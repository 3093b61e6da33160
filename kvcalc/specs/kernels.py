"""Kernels: how long measured kernels take on one GPU, as few constants each with its evidence.

Every kernel is a latency and shares of the data sheet's rates. `points` is how many measurements a row rests on,
`error` the median of |fitted / measured - 1| over them; both None where a row is taken from other GPUs or by judgement,
which `note` then says.
"""

from typing import Annotated

from kvcalc.specs.base import Count, Frozen, Positive, field
from kvcalc.specs.constraints import Within

Share = Annotated[float, Within(gt=0, le=4)]  # above 1 where caches help or peaks are understated
Latency = Annotated[float, Within(ge=0, le=10)]


class Measured(Frozen):
    """What every row says of its evidence."""

    points: Count | None = None
    error: float | None = None
    note: str | None = None


class GemmKernel(Measured):
    """latency + ((bytes / (bandwidth_share · BW))⁴ + (FLOPs / (flops_share · P))⁴ + (inputs · input_s)⁴)^¼

    The last is the walk of a multiplication that runs alone along its inputs. In a step engines split it among more
    threads: there it is left out, and what it explains in the measurements is not mistaken for latency.
    """

    dtype: str
    latency_s: Latency
    bandwidth_share: Share
    flops_share: Share
    input_s: Latency = 0  # of a multiplication alone
    graph: bool = True  # False: measured with a launch or a quantization that engines hide or fuse; not used for a step


class AttentionKernel(Measured):
    """latency + bytes / (bandwidth_share · BW); `library` is the engine whose kernels these are."""

    dtype: str
    library: str
    latency_s: Latency
    bandwidth_share: Share


class LatentAttentionKernel(Measured):
    """latency + ((bytes / …)⁴ + (FLOPs / …)⁴ + (context · token_s)⁴)^¼: the last is the walk along one sequence."""

    dtype: str
    latency_s: Latency
    bandwidth_share: Share
    flops_share: Share
    token_s: Latency


class PrefillAttentionKernel(Measured):
    """latency + FLOPs / (flops_share · P_bf16) + bytes of queries and outputs / (bandwidth_share · BW)"""

    dtype: str
    latency_s: Latency
    bandwidth_share: Share
    flops_share: Share


class ExpertsKernel(Measured):
    """As a GEMM over the touched experts; of several kernels for a dtype the fastest is used at each size."""

    dtype: str
    kernel: str
    latency_s: Latency
    bandwidth_share: Share
    chosen: bool = True  # False: far slower than what engines choose; not used for a step


class AllReduceKernel(Measured):
    """latency + 2 (n - 1) / n · bytes / (link_share · link) + sqrt_s · √(bytes / 1 MB), n GPUs.

    `library` nccl is for engines without a row of their own; theirs includes what they fall back to. Launched without a
    graph (`-eager`), a call takes at least `latency_s`, and there is no `link_share`.
    """

    library: str
    gpus: Positive
    latency_s: Latency
    link_share: Share | None = None
    sqrt_s: Latency = 0


class Kernels(Frozen):
    """What is known of one GPU's kernels; `like` says whose constants these are where they are not its own."""

    evidence: str
    date: str | None = None
    like: str | None = None
    elementwise_share: Share | None = None  # of the bandwidth: norms, rotary, activations, and what does not fuse
    sustained_share: Share | None = None  # of `flops_share`, what power and heat leave beyond a short measurement
    # Of the peak: decode where a kernel computes each query head's row in a tile of its own; at least so long a token.
    tiled_share: Share | None = None
    tiled_token_s: Latency = 0
    index_s: Latency = 0  # a layer of sparse attention: choosing, rotating and quantizing beside the scores
    # By bits: widening weights costs this much bandwidth.
    weight_only_share: dict[str, Share] = field(default_factory=dict)
    # By the least number of experts that it holds from.
    experts_flops_share: dict[str, Share] = field(default_factory=dict)
    gemm: tuple[GemmKernel, ...] = ()
    attention: tuple[AttentionKernel, ...] = ()
    latent_attention: tuple[LatentAttentionKernel, ...] = ()
    prefill_attention: tuple[PrefillAttentionKernel, ...] = ()
    experts: tuple[ExpertsKernel, ...] = ()
    all_reduce: tuple[AllReduceKernel, ...] = ()
