"""The answer to `kvcalc simulate`: latencies, goodput and use of requests through a scheduler."""

from typing import ClassVar, Literal

from kvcalc.results.base import Range, Report
from kvcalc.specs.base import Frozen

Value = Range | float | None  # a range where step times have one
Verdict = Literal["stable", "backlogged", "overloaded"]


class Percentiles(Frozen):
    """Of all requests that ran."""

    mean: Value
    p50: Value
    p90: Value
    p95: Value
    p99: Value
    max: Value


class PriorityClass(Frozen):
    """Requests of one priority; the smallest number is served first."""

    priority: int
    requests: int
    ttft_s: Percentiles
    tpot_s: Percentiles
    e2e_s: Percentiles


class Moment(Frozen):
    """The engine at one time."""

    time_s: float
    running: int
    waiting: int
    blocks: int
    preemptions: int  # so far


class Target(Frozen):
    """A limit that requests should keep, and how many did."""

    name: str  # ttft, tpot or e2e
    limit_s: float
    percentile: float
    have_s: Value  # at that percentile
    met_share: Value  # of requests


class Waste(Frozen):
    """Shares of the cache while somebody waits: what holds tokens, and what does not (Kwon et al. 2023, section 3)."""

    tokens: float
    reserved: float  # for tokens that will come
    internal: float  # for tokens that will never come
    external: float  # free, but of no use to who waits


class Offload(Frozen):
    """The prefix cache with the host's memory behind it: what it would hit, and what the link takes to bring it."""

    blocks: int  # that the host holds
    prefix_hit_rate: float | None
    loaded_tokens_per_request: float  # found on the host only
    load_s_per_request: float  # over the link, not hidden behind anything


class SharedBlocks(Frozen):
    """Several sequences of one prompt of the mean length: blocks, block tables shared and copied when written."""

    kind: str  # samples or beams
    sequences: int
    prompt_tokens: int
    output_tokens: int
    block_size: int
    blocks_unshared: int  # of the prompt, each sequence its own
    blocks_shared: int
    blocks_after_first_tokens: int  # each sequence has written one
    copies_on_write: int  # by then
    most_blocks: int  # that were ever held
    most_blocks_unshared: int
    tables: tuple[tuple[int, ...], ...] = ()  # block tables when each has written a token; long ones are left out
    references: tuple[int, ...] = ()  # by block, how many of them hold it then


class Calibration(Frozen):
    """What measured requests of this deployment say of the step times, and the answer with that."""

    file: str
    requests: int
    factor: float  # of all step times, from the mean TPOT
    measured_tpot_s: float
    simulated_tpot_s: float  # with kvcalc's own step times
    error_before: dict[str, float]  # relative, of the measured requests: ttft_mean, tpot_p99 ...
    error_after: dict[str, float]
    ttft_s: Percentiles  # of this workload, with the factor
    tpot_s: Percentiles
    e2e_s: Percentiles
    goodput_requests_per_s: float
    output_tokens_per_s: float


class RatePoint(Frozen):
    """One rate that was tried."""

    request_rate: float
    kept: bool  # every target
    goodput_requests_per_s: float


class HighestRate(Frozen):
    """The highest rate of requests at which every target is kept; the answer is at its value."""

    request_rate: Value
    points: tuple[RatePoint, ...]  # with the value's step times


class SimulateResult(Frozen):
    """Times in seconds as a client sees them; rates of the whole deployment."""

    model: str
    gpu: str
    gpus: int
    engine: str
    fits: bool | None
    fit: str
    reason: str | None
    requests: int
    refused: int  # counted in `requests`, not in percentiles
    unordered: int  # rows of a trace that came before an earlier one: sorted
    input_tokens: int
    output_tokens: int
    request_rate: float | None  # that arrive, of the whole deployment
    clients: int | None  # of all replicas, each asking again when it is answered; None: requests come by themselves
    duration_s: Value
    output_tokens_per_s: Value
    total_tokens_per_s: Value
    requests_per_s: Value
    ttft_s: Percentiles
    tpot_s: Percentiles
    itl_s: Percentiles
    e2e_s: Percentiles
    by_priority: tuple[PriorityClass, ...]  # where requests have priorities
    goodput_requests_per_s: Value
    targets: tuple[Target, ...]
    slot_use: Value
    block_use: Value
    waste: Waste | None  # None: nobody waits
    block_fill: Value  # tokens in the blocks that are held
    budget_use: Value
    busy_share: Value
    pool_full_s: float | None  # since the start, when somebody first lacked blocks; None: nobody ever did
    preemptions: Value
    swapped_blocks: Value  # out and in
    recomputed_tokens: Value
    prefix_hit_rate: Value
    endless_hit_rate: float | None  # what a cache without an end would hit; None: prompts are not told apart
    offload: Offload | None
    steps: int
    load: Value
    capacity_requests_per_s: Value
    queued_share: Value  # of the time in which requests arrive (all at once: of the run), somebody waited
    verdict: Verdict | None  # None: nothing runs, for it does not fit
    verdict_low: Verdict | None  # if steps are as long as the range says they may be
    verdict_high: Verdict | None
    max_num_seqs: int
    num_blocks: int
    block_size: int
    timeline: tuple[Moment, ...]
    sharing: SharedBlocks | None = None
    highest_rate: HighestRate | None = None
    calibration: Calibration | None = None


class SimulateReport(Report):
    command: ClassVar[str] = "simulate"
    result: SimulateResult


class SweepPoint(Frozen):
    """One combination of repeated flags."""

    values: dict[str, str]
    result: SimulateResult


class SweepResult(Frozen):
    """Several simulations; of each everything but its timeline."""

    points: tuple[SweepPoint, ...]


class SweepReport(Report):
    command: ClassVar[str] = "simulate"
    result: SweepResult
