"""The answer to `kvcalc size`: does it fit, how much, how fast, what does it cost."""

from typing import Literal

from kvcalc.results.base import Range, Report
from kvcalc.results.paging import Paging
from kvcalc.specs.base import Frozen
from kvcalc.specs.gpu import Price


class Bound(Frozen):
    """The papers' bound of one decode step: no machine is faster."""

    step_time_s: float
    output_tokens_per_s: float
    limit: Literal["memory", "compute"]
    usd_per_million_output_tokens: float | None = None


class Estimate(Frozen):
    """What a real machine is expected to do, with the range that holds about 80 % of measurements."""

    step_time_s: Range
    output_tokens_per_s: Range
    usd_per_million_output_tokens: Range | None = None


class Serving(Frozen):
    """A server in a steady state: `concurrency` requests in flight on each replica, lengths as given."""

    input_len: int
    output_len: int
    concurrency: int
    concurrency_given: bool
    ttft_alone_bound_s: float
    ttft_alone_s: Range  # nobody else in the engine
    ttft_s: Range  # at the concurrency
    tpot_s: Range  # mean, the other requests' prompts included
    output_tokens_per_s: Range
    total_tokens_per_s: float
    output_tokens_per_s_per_gpu: float
    usd_per_million_output_tokens: float | None  # the part of the hour that decodes
    usd_per_million_input_tokens: float | None  # the part that prompts take


class ContextRow(Frozen):
    """Whole sequences that fit at a context; None: no limit."""

    context: int
    max_batch: int | None


class MemoryTerm(Frozen):
    """One line of the memory budget of a GPU."""

    name: str
    bytes: int
    low_bytes: int | None = None
    high_bytes: int | None = None
    note: str = ""


class IdealCapacity(Frozen):
    """The same pool without blocks, padding or reservations, beside the engine's."""

    kv_cache_size_tokens: int | None
    max_batch: int | None
    difference: str  # what the engine's rounding costs, in words


class Advice(Frozen):
    """A change worth making, with what it gives."""

    change: str  # the flag, as it would be typed
    effect: str  # with numbers
    goal: str = ""  # fit | batch | cost | speed


class SizeResult(Frozen):
    """Bytes are of one GPU, the fullest rank; tokens and sequences of one replica; throughput of the deployment."""

    model: str
    gpu: str
    gpus: int
    engine: str
    engine_version: str | None
    fits: bool
    reason: str | None  # why not
    context: int  # the longest that a sequence gets: what must fit
    mean_context: int  # while it decodes: what the step's figures are at
    batch: int | None
    max_model_len: int | None
    weight_bytes_per_gpu: int
    overhead_bytes_per_gpu: int | None
    kv_pool_bytes_per_gpu: int | None
    kv_cache_bytes_per_token: int | float
    fixed_bytes_per_sequence: int
    kv_cache_size_tokens: int | None
    kv_cache_max_concurrency: float | None
    kv_cache_needed_bytes_per_gpu: int | None  # what the engine sets aside for one sequence of max_model_len
    estimated_max_model_len: int | None = None  # the longest single sequence that fits, at most max_model_len
    max_batch: int | None
    memory: tuple[MemoryTerm, ...]
    kv_pool_low_bytes_per_gpu: int | None = None
    kv_pool_high_bytes_per_gpu: int | None = None
    bound: Bound | None
    estimate: Estimate | None
    price: Price | None = None  # of one GPU; the median is what the costs are computed with
    usd_per_hour: float | None = None  # the bill of the whole deployment, idle GPUs of its machines included
    gpus_billed: int | None = None
    serving: Serving | None = None  # where --input-len and --output-len are given
    by_context: tuple[ContextRow, ...]
    ideal: IdealCapacity | None
    paging: Paging | None = None
    advice: tuple[Advice, ...] = ()

    @property
    def best_step_s(self) -> float | None:
        """Seconds of a user's token, by the same choice."""
        if self.serving is not None and self.serving.concurrency_given:
            return self.serving.tpot_s.value
        if self.estimate is not None:
            return self.estimate.step_time_s.value
        return None if self.bound is None else self.bound.step_time_s

    @property
    def best_figures(self) -> tuple[float | None, float | None]:
        """(USD per million output tokens, output tokens/s): at the concurrency that was asked for, else of the step.

        The estimate's where there is one, else the bound's.
        """
        if self.serving is not None and self.serving.concurrency_given:
            return (self.serving.usd_per_million_output_tokens, self.serving.output_tokens_per_s.value)
        if self.estimate is not None:
            cost = self.estimate.usd_per_million_output_tokens
            return (None if cost is None else cost.value, self.estimate.output_tokens_per_s.value)
        if self.bound is not None:
            return (self.bound.usd_per_million_output_tokens, self.bound.output_tokens_per_s)
        return (None, None)


class SizeReport(Report):
    result: SizeResult
