"""The answer to `kvcalc plan`: the deployments that meet a workload and its targets."""

from typing import Any, ClassVar, Literal

from kvcalc.results.base import Fit, Range, Report
from kvcalc.results.performance import TokenPrices
from kvcalc.specs.base import Frozen
from kvcalc.specs.price import Price

TENFOLD = 10


class PlanMiss(Frozen):
    """A target that is not met, and by how much: 0.1 is 10 % above it."""

    target: str  # ttft | tpot | e2e
    by: float
    have_s: float

    @property
    def excess(self) -> str:
        """How much above it in words: of a queue without end the figure itself tells nothing.

        >>> PlanMiss(target="tpot", by=0.3, have_s=0.052).excess, PlanMiss(target="ttft", by=19e3, have_s=38e3).excess
        ('30%', 'more than tenfold')
        """
        return f"{self.by:.0%}" if self.by < TENFOLD else "more than tenfold"


class FewerReplicas(Frozen):
    """The next cheaper number of replicas of the same deployment, and what it misses."""

    replicas: int
    concurrency: int
    usd_per_hour: float | None
    misses: tuple[PlanMiss, ...]
    percentile: float | None = None  # that the misses are of; None: of means


class ApiComparison(Frozen):
    """The same requests bought from an API, by the million tokens."""

    usd_per_request: float
    usd_per_month: float  # of the month's requests
    saved_usd_per_month: float  # by the own deployment; below 0: the API is cheaper
    cheaper: Literal["own", "api"]
    break_even_requests_per_s: float | None  # mean load from which one replica is cheaper; None: at no load
    always_from_requests_per_s: float | None  # from which it stays so, whatever replicas are added


class Money(Frozen):
    """A month of 730 hours at the mean load, which `utilization` is of the planned one. Cached tokens are input too."""

    usd_per_month: float
    utilization: float
    requests_per_month: float
    usd_per_request: float
    usd_per_user_month: float | None
    usd_per_million_tokens: TokenPrices | None
    api: ApiComparison | None = None


class SimulatedPlan(Frozen):
    """A candidate's requests through the scheduler, at a percentile."""

    percentile: float
    seed: int
    requests: int  # of one replica
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    met_share: float  # of the requests, those that keep every target
    goodput_requests_per_s: float  # of all replicas: requests that keep every target
    meets: bool  # the percentile keeps every target


class Candidate(Frozen):
    """One deployment and how many of it: latencies as `size` has them at the concurrency, the rest of all replicas."""

    deployment: dict[str, Any]  # by field, what its flags say; `gpu` among them
    gpu: str
    layout: str  # in short: TP8 PP2
    fits: bool | None  # the engine starts; None: it may, for the need lies inside the pool's range
    fit: Fit
    reason: str | None
    weights: str  # how they are stored
    cache: str  # its element type
    drafts: int  # tokens drafted for each pass; 0: none
    replicas: int
    gpus: int  # of all replicas
    gpus_billed: int
    concurrency: int  # clients of a data-parallel replica
    usd_per_hour: float | None
    usd_per_month: float | None
    usd_per_million_output_tokens: Range | None  # at the planned load
    money: Money | None  # None: without a price
    ttft_s: Range
    tpot_s: Range | None
    e2e_s: Range
    output_tokens_per_s: Range
    output_tokens_per_s_per_gpu: float
    requests_per_s: float
    meets: bool
    misses: tuple[PlanMiss, ...]
    binds: str  # what breaks first under more load: ttft | tpot | e2e | memory | max_num_seqs
    headroom: float  # more load that it carries within the targets: 0.1 is 10 %
    next_cheaper: FewerReplicas | None
    simulated: SimulatedPlan | None  # with --percentile
    pareto: bool  # no other is both cheaper and faster for each user
    size: str  # the `kvcalc size` that gives the same figures
    command: str | None  # that starts a replica
    price: Price | None


class SeparatePools(Frozen):
    """Replicas of one layout that compute prompts, and others that decode, joined by a link: the load of all users."""

    deployment: dict[str, Any]  # of a replica of either, by field
    gpu: str
    layout: str
    prefill_replicas: int
    decode_replicas: int
    batch: int  # sequences of a decoding replica
    gpus: int
    usd_per_hour: float | None
    usd_per_month: float | None
    ttft_s: Range
    tpot_s: Range
    requests_per_s: float
    simulate: str  # the `kvcalc simulate` of both pools at this rate
    commands: tuple[str, ...]  # one a pool: the first computes prompts


class PlanResult(Frozen):
    """Those that meet the targets, cheapest first; where none does, the nearest."""

    model: str
    fits: bool | None  # the first; where there is none: false
    fit: Fit
    reason: str | None
    met: bool
    objective: str
    input_len: int
    output_len: int
    prefix_hit: int
    users: int | None
    think_s: float
    request_rate: float | None  # requests a second, at the peak
    targets: dict[str, float | None]  # seconds: ttft_s, tpot_s, e2e_s
    judge: str
    percentile: float | None  # that keeps the targets in the simulator; None: the targets are of means
    candidates: tuple[Candidate, ...]
    separate_pools: tuple[SeparatePools, ...]  # those that cost less than the first, the cheapest first
    tried: int  # deployments
    fitting: int  # of them, those that fit
    meeting: int  # of them, those that meet the targets
    emitted: str | None  # with --emit: what starts a replica of the first
    summary: tuple[str, ...]


class PlanReport(Report):
    command: ClassVar[str] = "plan"
    result: PlanResult
