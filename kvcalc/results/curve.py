"""The answer to `kvcalc curve`: throughput against speed per user."""

from kvcalc.results.base import Range, Report
from kvcalc.specs.base import Frozen


class CurvePoint(Frozen):
    """One point; of the whole deployment, but bytes and FLOPs of one GPU."""

    gpu: str
    tp: int
    batch: int
    context: int
    bytes: float
    flops: float
    intensity_flop_per_byte: float
    memory_time_s: float
    compute_time_s: float
    bound_s: float
    operator_bound_s: float | None
    estimate_s: Range | None
    output_tokens_per_s: float  # of the estimate where there is one, else of the bound
    output_tokens_per_s_per_gpu: float
    output_tokens_per_s_per_user: float
    usd_per_million_output_tokens: float | None
    usd_per_million_input_tokens: float | None  # of prompts of the given length, for the time that they take
    fits: bool


class UnderTarget(Frozen):
    """The largest batch of one curve that fits and meets the TPOT target; None: not even one sequence."""

    gpu: str
    tp: int
    context: int
    batch: int | None


class CurveResult(Frozen):
    """All points, and the largest batch under the TPOT target."""

    model: str
    over: str  # what varies along a curve: batch or context
    tpot_target_s: float | None
    largest_batch_under_tpot: int | None
    under_tpot: tuple[UnderTarget, ...]  # the same for each GPU, tp and context
    points: tuple[CurvePoint, ...]


class CurveReport(Report):
    result: CurveResult
