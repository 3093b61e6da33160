"""The answer to `kvcalc size` without a GPU: those that are offered, ranked."""

from typing import ClassVar

from kvcalc.results.base import Fit, Report
from kvcalc.results.size import SizeResult
from kvcalc.specs.base import Frozen


class RankedGpu(Frozen):
    """One GPU of the ranking."""

    gpu: str
    title: str
    fits: bool | None
    fit: Fit
    reason: str | None
    memory_bytes: int
    max_batch: int | None
    kv_cache_size_tokens: int | None
    bound_step_time_s: float | None
    ttft_s: float | None  # serving's, where lengths are given
    tpot_s: float | None  # serving's where lengths are given, else the step's: its estimate, else its bound
    output_tokens_per_s: float | None
    usd_per_million_output_tokens: float | None


class RankingResult(SizeResult):
    """The first of the ranking in full, and the ranking."""

    ranking: tuple[RankedGpu, ...]
    not_ranked: int = 0  # GPUs of the catalog that nobody has a price for and that are no server's card of today


class RankingReport(Report):
    command: ClassVar[str] = "size"
    result: RankingResult
