"""The answer to `kvcalc curve`: throughput against speed per user."""

from typing import ClassVar

from kvcalc.results.base import Fit, Range, Report
from kvcalc.results.performance import Serving
from kvcalc.specs.base import Frozen


class CurvePoint(Frozen):
    """One point; of the whole deployment, but bytes and FLOPs of one GPU."""

    gpu: str
    tp: int
    batch: int  # of the step: with lengths, the clients that run at once
    concurrency: int | None  # clients of a replica, where lengths are given
    context: int
    bytes: float
    weight_bytes: float  # and
    cache_bytes: float  # of them
    flops: float
    intensity_flop_per_byte: float
    memory_time_s: float
    compute_time_s: float
    bound_s: float
    operator_bound_s: float | None
    estimate_s: Range | None
    tpot_s: float | None  # this and the next four: serving's where lengths are given, else the step's
    output_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float | None
    usd_per_million_output_tokens: float | None
    serving: Serving | None  # where lengths are given
    fits: bool | None
    fit: Fit
    reason: str | None


class UnderTarget(Frozen):
    """The largest batch (or, with lengths, clients) of one curve that meets the TPOT target; None: not even one."""

    gpu: str
    tp: int
    context: int
    batch: int | None
    concurrency: int | None


class CurveResult(Frozen):
    """All points, and the largest batch under the TPOT target. `fits` is of the point that fits best."""

    model: str
    fits: bool | None
    fit: Fit
    reason: str | None
    over: str  # what varies along a curve: batch, concurrency or context
    tpot_target_s: float | None
    largest_batch_under_tpot: int | None
    largest_concurrency_under_tpot: int | None
    under_tpot: tuple[UnderTarget, ...]  # the same for each GPU, tp and context
    points: tuple[CurvePoint, ...]


class CurveReport(Report):
    command: ClassVar[str] = "curve"
    result: CurveResult
