"""The answer to `kvcalc size`: does it fit, how much, how fast, what does it cost."""

from typing import ClassVar

from kvcalc.results.base import Fit, Range, Report
from kvcalc.results.paging import Paging
from kvcalc.results.performance import Headline, Serving, StepBound, StepEstimate, headline
from kvcalc.specs.base import Frozen
from kvcalc.specs.gpu import Price

FIT_ORDER = ("fits", "may_fit", "does_not_fit")  # as tables rank them


class ContextRow(Frozen):
    """Whole sequences that fit at a context (None: no limit), and how fast one is that has the engine to itself."""

    context: int
    max_batch: int | None
    alone_tokens_per_s: Range | None = None


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
    goal: str = ""  # fit | batch | cost | speed | weights


class SizeResult(Frozen):
    """Bytes are of one GPU, the fullest rank; tokens and sequences of one replica; throughput of the deployment."""

    model: str
    gpu: str
    gpus: int
    engine: str
    engine_version: str | None
    fits: bool | None  # None: it may, for the need lies inside the range of the pool
    fit: Fit
    reason: str | None  # why not, or what decides it
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
    bound: StepBound | None
    estimate: StepEstimate | None
    price: Price | None = None  # of one GPU; the median is what the costs are computed with
    usd_per_hour: float | None = None  # the bill of the whole deployment, idle GPUs of its machines included
    gpus_billed: int | None = None
    serving: Serving | None = None  # where --input-len and --output-len are given
    by_context: tuple[ContextRow, ...]
    ideal: IdealCapacity | None
    paging: Paging | None = None
    advice: tuple[Advice, ...] = ()
    command: str | None = None  # that starts this deployment

    @property
    def headline(self) -> Headline | None:
        """What tables, targets, limits and rankings take."""
        return headline(self.bound, self.estimate, self.serving)


class SizeReport(Report):
    command: ClassVar[str] = "size"
    result: SizeResult
