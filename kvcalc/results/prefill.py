"""The answer to `kvcalc prefill`: one prompt, and what it does to the sequences that decode beside it.

A time that is named neither bound nor estimate is the bound's with `--engine ideal`, else the estimate's value.
"""

from typing import ClassVar, Literal

from kvcalc.results.base import Fit, Range, Report
from kvcalc.results.performance import Serving
from kvcalc.specs.base import Frozen


class Term(Frozen):
    """One part of the time to the first token."""

    name: str
    time_s: float
    share: float


class FreeChunk(Frozen):
    """Prompt tokens that ride on a decode step: at the bound for nothing, at the estimate for `slowdown` of a step."""

    bound: float
    estimate: float | None
    slowdown: float | None  # how much longer the step may get at the estimate: 0.1 is 10 %


class Spike(Frozen):
    """The step that runs the whole prompt beside the decoding sequences."""

    step_time_s: float
    ratio: float  # to the plain decode step


class Chunk(Frozen):
    """One step of a chunked prefill."""

    start: int  # prompt tokens done before it
    tokens: int
    step_time_s: float


class ChunkChoice(Frozen):
    """What a chunk size does: to everybody's time per token while the prompt runs, and to its first token."""

    chunk: int
    steps: int
    mean_step_s: float
    worst_step_s: float
    worst_ratio: float  # to the plain decode step
    ttft_s: float
    waits_s: float  # how much later than alone the prompt has its first token


class TargetChunk(Frozen):
    """The largest chunk whose slowest step keeps a target; None: not even one token does."""

    tpot_s: float
    chunk: int | None
    worst_step_s: float | None
    ttft_s: float | None


class PrefixHit(Frozen):
    """Prompt tokens whose cache is there already."""

    asked_tokens: int
    tokens: int  # in whole blocks, and at least one token is left to compute
    time_s: float
    time_without_s: float
    saved_share: float
    max_batch: int | None  # sequences of the context that share these tokens' blocks
    max_batch_without: int | None


class Transfer(Frozen):
    """The prompt's cache handed to another GPU: what one GPU of the replica sends over its own link."""

    link: str
    bytes: float
    time_s: float
    exposed_s: float  # left after the last layer, when each layer is sent while the next is computed


class PoolServing(Frozen):
    """One way of serving, per GPU, at the batch that its decoding GPUs run."""

    batch: int
    tpot_s: float
    ttft_s: float  # without a queue
    output_tokens_per_s_per_gpu: float


class Disaggregation(Frozen):
    """Prompts and decoding on separate GPUs against chunks on the same ones, in a steady state at these lengths."""

    output_len: int
    link: str
    prefill_per_decode: float  # prefill replicas for one decode replica, in balance
    prefill_replicas: int  # small whole numbers near that balance
    decode_replicas: int
    busy_share: float  # of the pool that waits for the other at these numbers
    prompt_tokens_per_step: float  # that chunked steps carry on average
    chunked: PoolServing | None  # None: no batch meets the target
    disaggregated: PoolServing | None
    better: Literal["chunked", "disaggregated", "neither"]
    why: str


class SwapRow(Frozen):
    block_size: int
    copies: int
    swap_s: float


class Preemption(Frozen):
    """Restoring an evicted sequence of the prompt's length: its blocks from the host, or one prefill."""

    tokens: int
    bytes: float  # of one GPU, one way
    link: str | None
    swap_one_way_s: float | None  # None: no link to the host is known
    swap_s: float | None  # out and in again
    recompute_s: float
    cheaper: Literal["swap", "recompute"]
    block_size: int | None
    by_block_size: tuple[SwapRow, ...]


class PrefillResult(Frozen):
    model: str
    gpu: str
    gpus: int
    engine: str
    fits: bool | None
    fit: Fit
    reason: str | None
    prompt_tokens: int
    batch: int  # sequences that decode beside it
    context: int
    chunk: int
    flops: float
    attention_share: float
    memory_time_s: float
    compute_time_s: float
    bound_s: float
    operator_bound_s: float
    estimate_s: Range | None
    ttft_terms: tuple[Term, ...]
    decode_step_s: float
    free_chunk_tokens: FreeChunk
    spike: Spike
    chunks: tuple[Chunk, ...]
    chunked_ttft_s: float
    by_chunk: tuple[ChunkChoice, ...]
    chunk_for_tpot: TargetChunk | None
    prefix: PrefixHit | None
    transfer: tuple[Transfer, ...]
    disaggregation: Disaggregation | None
    preemption: Preemption
    serving: Serving | None  # plain, where both lengths are given


class PrefillReport(Report):
    command: ClassVar[str] = "prefill"
    result: PrefillResult
