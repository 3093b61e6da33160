"""The answer to `kvcalc report`: other commands' answers for one deployment, and the frames of its six figures."""

from typing import ClassVar, Literal

from kvcalc.results.base import Range, Report
from kvcalc.results.plan import PlanResult
from kvcalc.results.size import SizeResult
from kvcalc.specs.base import Frozen


class Omitted(Frozen):
    """A part that this deployment has no answer to, and why."""

    part: str
    why: str


class ExplorerPoint(Frozen):
    """One decode step, as `curve` has it; bytes and FLOPs of one GPU."""

    cache: str  # "as it is", or what is other
    context: int
    batch: int
    fits: bool
    bytes: float
    weight_bytes: float
    cache_bytes: float
    flops: float
    intensity_flop_per_byte: float
    memory_time_s: float
    compute_time_s: float
    bound_s: float
    estimate_s: Range | None
    output_tokens_per_s: float
    usd_per_million_output_tokens: float | None
    stored_bytes_per_gpu: int  # the cache of the batch, in the engine's blocks
    max_batch: int | None


class Explorer(Frozen):
    """Batch and roofline: every combination of cache, context and batch."""

    memory_bytes_per_gpu: int  # that the engine may use
    weight_bytes_per_gpu: int
    other_bytes_per_gpu: int
    ridge_flop_per_byte: float
    peak_flops: float
    bandwidth_bytes_per_s: float
    tpot_target_s: float | None
    points: tuple[ExplorerPoint, ...]


class Segment(Frozen):
    """What a slot does over some time."""

    seed: int
    longest: int  # output of the longest request
    scheduler: Literal["static", "continuous"]
    slot: int
    request: int | None  # None: idle
    kind: Literal["prefill", "decode", "idle"]
    start_s: float
    end_s: float


class Schedule(Frozen):
    """The same requests through one scheduler, as `simulate` has it."""

    seed: int
    longest: int
    scheduler: Literal["static", "continuous"]
    duration_s: float
    output_tokens_per_s: float
    slot_use: float
    steps: int


class Schedules(Frozen):
    """Static against continuous batching."""

    slots: int
    requests: int
    input_len: int
    schedules: tuple[Schedule, ...]
    segments: tuple[Segment, ...]


class PoolCell(Frozen):
    """One block that is held: by whom, and how many of its slots have a token."""

    mode: str
    step: int
    block: int
    request: int  # the first of those that hold it
    tokens: int
    holders: int


class PoolMoment(Frozen):
    """The pool in one step."""

    mode: str
    step: int
    running: int
    waiting: int
    tokens: int
    held_blocks: int
    used_share: float  # tokens in the slots that are held
    copies: int  # blocks copied when written, so far
    preemptions: int  # requests stopped for want of a block, so far


class PoolRun(Frozen):
    """The whole run, as `simulate` has it."""

    mode: str
    steps: int
    slot_use: float
    block_use: float


class Pool(Frozen):
    """A small pool in one piece a request, and in blocks."""

    blocks: int
    block_size: int
    reserved_tokens: int  # of a request, in one piece
    requests: int
    as_served: bool  # the engine's own blocks; else those of the lessons, or without its states and windows
    runs: tuple[PoolRun, ...]
    moments: tuple[PoolMoment, ...]
    cells: tuple[PoolCell, ...]


class SampledToken(Frozen):
    """One token at one position: p, q, and what the rule emits."""

    tokens: int
    quality: float  # λ: how much of the target is in the draft
    token: int
    target: float
    draft: float
    kept: float
    resampled: float
    drawn: tuple[float, ...]  # shares of random draws, one a seed


class SampledRate(Frozen):
    """The acceptance of a draft: 1 minus the total-variation distance."""

    tokens: int
    quality: float
    acceptance: float


class Sampling(Frozen):
    """Speculative acceptance at one position."""

    draws: int
    rates: tuple[SampledRate, ...]
    distribution: tuple[SampledToken, ...]


class RoundsRow(Frozen):
    """One acceptance and draft length on this deployment, as `speculate` has it."""

    acceptance: float
    gamma: int
    tokens_per_pass: float
    speedup: float
    reach: tuple[float, ...]  # P(A ≥ j) for j = 1 … γ


class DrawnRound(Frozen):
    """A random round: draft tokens accepted before the first rejection."""

    acceptance: float
    gamma: int
    seed: int
    round: int
    accepted: int


class SpeculativeRounds(Frozen):
    """Random rounds, and what they are worth here."""

    draft: str
    batch: int
    context: int
    draft_cost_ratio: float
    usual_acceptance: float
    rows: tuple[RoundsRow, ...]
    rounds: tuple[DrawnRound, ...]


class PromptStep(Frozen):
    """One step while a prompt is computed: what everybody else waits for a token."""

    prompt: int
    mode: str
    step: int  # 0 is the first after the prompt came
    tokens: int  # of the prompt
    step_time_s: float


class PromptMode(Frozen):
    """One way of taking a prompt in, as `prefill` has it."""

    prompt: int
    mode: str
    chunk: int | None
    worst_step_s: float
    ratio: float  # to the plain step
    prompt_s: float  # until the prompt's first token, the wait for a queue aside
    transfer_s: float | None
    steps: int


class Prompts(Frozen):
    """A long prompt beside decoding sequences."""

    batch: int
    context: int
    decode_step_s: float
    tpot_target_s: float
    modes: tuple[PromptMode, ...]
    steps: tuple[PromptStep, ...]


class ReportResult(Frozen):
    """Parts that other commands give, each with the line that gives it, and the frames of the figures."""

    model: str
    gpu: str
    gpus: int
    commands: dict[str, str]
    size: SizeResult
    plan: PlanResult | None
    explorer: Explorer | None
    schedules: Schedules | None
    pool: Pool | None
    sampling: Sampling
    rounds: SpeculativeRounds | None
    prompts: Prompts | None
    omitted: tuple[Omitted, ...]


class ReportReport(Report):
    command: ClassVar[str] = "report"
    result: ReportResult
