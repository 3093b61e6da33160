"""The answer to `kvcalc speculate`: what drafting ahead is worth, and where it stops paying.

A time that is named neither bound nor estimate is the bound's with `--engine ideal`, else the estimate's value.
"""

from typing import ClassVar

from kvcalc.results.base import Fit, Range, Report
from kvcalc.results.performance import Serving
from kvcalc.specs.base import Frozen


class GammaRow(Frozen):
    """One draft length, at the batch of the question."""

    gamma: int
    drafted_tokens: int  # that the target checks: γ in a chain, more in a tree
    tokens_per_pass: float
    verify_s: float
    draft_s: float
    speedup: float


class BatchRow(Frozen):
    """One batch, at the draft length of the question and at its own best."""

    batch: int
    speedup: float
    verify_rows: int
    verify_cost_ratio: float  # of the check to the plain step
    tpot_s: float
    plain_tpot_s: float
    output_tokens_per_s: float
    best_gamma: int  # 0: none pays
    best_speedup: float
    fits: bool  # with the draft's weights and cache in memory


class DraftMemory(Frozen):
    """What the draft takes on one GPU, and what is left for sequences of the context."""

    weight_bytes: int
    cache_bytes_per_token: float
    max_batch: int | None
    max_batch_without: int | None


class AtCapacity(Frozen):
    """Each way at the largest batch that it can hold: what a full server gains."""

    plain_batch: int
    plain_output_tokens_per_s: float
    batch: int
    output_tokens_per_s: float
    gain: float  # above 1: speculation serves more tokens


class SpeculateResult(Frozen):
    """Throughput and cost are of the whole deployment."""

    model: str
    gpu: str
    gpus: int
    engine: str
    fits: bool | None
    fit: Fit
    reason: str | None
    draft: str
    batch: int
    context: int
    gamma: int
    tokens_per_pass: float
    speedup: Range | float  # a plain number with `--engine ideal`
    best_gamma: int
    acceptance_rate: float
    decay: float
    acceptance: tuple[float, ...]  # measured positions, where they were given
    draft_cost_ratio: float  # of one draft pass to one plain step
    verify_cost_ratio: float
    plain_step_s: float
    verify_s: float
    draft_s: float  # all draft passes of a round
    engine_s: float
    tpot_s: float
    output_tokens_per_s: float
    usd_per_million_output_tokens: float | None
    plain_output_tokens_per_s: float
    plain_usd_per_million_output_tokens: float | None
    by_gamma: tuple[GammaRow, ...]
    by_batch: tuple[BatchRow, ...]
    stops_paying_at_batch: int | None  # from here on this draft length gains nothing; None: it still pays at the last
    pays_from_acceptance: float | None  # at the batch and draft length of the question; None: not even at 1
    memory: DraftMemory
    at_capacity: AtCapacity | None
    serving: Serving | None  # plain, where lengths are given


class SpeculateReport(Report):
    command: ClassVar[str] = "speculate"
    result: SpeculateResult
