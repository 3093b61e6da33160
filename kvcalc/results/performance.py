"""How fast and for how much: of one decode step, and of a server in a closed loop. Every report takes these."""

from typing import Literal

from kvcalc.results.base import Range
from kvcalc.specs.base import Frozen


class StepBound(Frozen):
    """The papers' bound of one decode step: no machine is faster."""

    step_time_s: float
    output_tokens_per_s: float
    limit: Literal["memory", "compute"]
    usd_per_million_output_tokens: float | None = None


class StepEstimate(Frozen):
    """What a real machine is expected to do in one decode step, with the range of about 80 % of measurements."""

    step_time_s: Range
    output_tokens_per_s: Range
    usd_per_million_output_tokens: Range | None = None


class TokenPrices(Frozen):
    """USD per million tokens of each kind: the whole bill, split by the time that each kind takes."""

    input: float  # prompt tokens that are computed
    cached_input: float | None  # prompt tokens that are cached already; None: there are none
    output: float


class Serving(Frozen):
    """A server in a closed loop: `concurrency` clients of each replica, each asking again when it is answered.

    Latencies are of one request; tokens and money of the whole deployment.
    """

    input_len: int
    output_len: int
    prefix_hit: int
    concurrency: int
    running: int  # of the clients, those that run at once
    waiting: int  # and those that wait for a place
    num_prompts: int  # requests in all, of one replica
    ttft_alone_bound_s: float
    ttft_alone_s: Range  # nobody else in the engine
    ttft_s: Range  # at the concurrency, the wait for a place included
    tpot_s: Range | None  # mean, the other requests' prompts included; None: one token out
    output_tokens_per_s: Range
    total_tokens_per_s: float  # prompts' tokens too
    output_tokens_per_s_per_gpu: float
    usd_per_million_output_tokens: Range | None  # the whole bill over the output tokens
    usd_per_million_tokens: TokenPrices | None  # the same bill by kind of token


class Headline(Frozen):
    """The figures that tables, targets, limits and rankings take: serving's where lengths are given, else the step's.

    `basis` says whose they are; those of a bound have no width.
    """

    basis: Literal["serving", "step", "bound"]
    tpot_s: Range | None
    ttft_s: Range | None
    output_tokens_per_s: Range
    usd_per_million_output_tokens: Range | None


def headline(bound: StepBound | None, estimate: StepEstimate | None, serving: Serving | None) -> Headline | None:
    """The one choice between the figures of a report; None where nothing runs."""
    if serving is not None:
        return Headline(
            basis="serving",
            tpot_s=serving.tpot_s,
            ttft_s=serving.ttft_s,
            output_tokens_per_s=serving.output_tokens_per_s,
            usd_per_million_output_tokens=serving.usd_per_million_output_tokens,
        )
    if estimate is not None:
        return Headline(
            basis="step",
            tpot_s=estimate.step_time_s,
            ttft_s=None,
            output_tokens_per_s=estimate.output_tokens_per_s,
            usd_per_million_output_tokens=estimate.usd_per_million_output_tokens,
        )
    if bound is None:
        return None
    usd = bound.usd_per_million_output_tokens
    return Headline(
        basis="bound",
        tpot_s=_exactly(bound.step_time_s),
        ttft_s=None,
        output_tokens_per_s=_exactly(bound.output_tokens_per_s),
        usd_per_million_output_tokens=None if usd is None else _exactly(usd),
    )


def _exactly(value: float) -> Range:
    return Range(value=value, low=value, high=value)
