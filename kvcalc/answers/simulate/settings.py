"""What `simulate` takes beside the flags of every command."""

import re
from typing import Annotated, Literal

from kvcalc.errors import KvcalcError
from kvcalc.simulator.drafts import Accepting
from kvcalc.simulator.routing import Routing
from kvcalc.simulator.settings import Policy
from kvcalc.simulator.traffic import Length
from kvcalc.specs.base import Frozen
from kvcalc.specs.constraints import FromText, Within
from kvcalc.specs.deployment import count, gib, number, share, tokens
from kvcalc.units import parse_seconds, parse_tokens

MOST_REQUESTS = 10_000_000
Seconds = Annotated[float, Within(ge=0, le=1e9)]
Scheduling = Literal["continuous", "static"]
Reserving = Literal["none", "max", "pow2", "oracle"]


def _seconds(what: str) -> FromText:
    return FromText(parse_seconds, what)


class SimulateSettings(Frozen):
    """Traffic, targets, the scheduler's own switches, and what is written beside the answer."""

    requests: Annotated[int | None, Within(ge=1, le=MOST_REQUESTS), count("--requests")] = None
    request_rate: Annotated[float | None, Within(gt=0, le=1e9), number("--request-rate", "2.5")] = None
    arrivals: Literal["poisson", "gamma", "constant", "at-once"] = "poisson"
    burstiness: Annotated[float, Within(gt=0, le=1000), number("--burstiness", "4")] = 1.0
    ramp: Annotated[float, Within(gt=0, le=1000), number("--ramp", "2")] = 1.0
    think_s: Annotated[Seconds, _seconds("--think-time")] = 0.0
    isl_sigma: Annotated[float | None, Within(gt=0, le=5), number("--isl-sigma", "0.5")] = None
    osl_sigma: Annotated[float | None, Within(gt=0, le=5), number("--osl-sigma", "0.5")] = None
    shared_prefix: Annotated[int, Within(ge=0, le=10**7), tokens("--shared-prefix")] = 0
    prefix_groups: Annotated[int, Within(ge=1, le=10**6), count("--prefix-groups")] = 1
    turns: Annotated[int, Within(ge=1, le=1000), count("--turns")] = 1
    tool_calls: Annotated[int, Within(ge=0, le=1000), count("--tool-calls")] = 0
    tool_s: Annotated[Seconds, _seconds("--tool-time")] = 0.0
    lengths_from: str | None = None
    equal_lengths: bool = False
    samples: Annotated[int, Within(ge=1, le=1024), count("--samples")] = 1
    beam: Annotated[int, Within(ge=1, le=1024), count("--beam")] = 1
    trace: str | None = None
    time_scale: Annotated[float, Within(gt=0, le=1e6), number("--time-scale", "0.5")] = 1.0
    calibrate_from: str | None = None
    find_rate: bool = False
    ray: str | None = None
    seed: Annotated[int, Within(ge=0, le=2**63), count("--seed")] = 0
    e2e_s: Annotated[float | None, Within(gt=0), _seconds("--e2e")] = None
    percentile: Annotated[float, Within(gt=0, le=99.999), number("--percentile", "95")] = 99.0
    scheduler: Scheduling = "continuous"
    reservation: Reserving = "none"
    async_scheduling: bool | None = None
    scheduling_policy: Policy = "fcfs"
    urgent: Annotated[float, Within(ge=0, le=1), share("--urgent")] = 0.0
    long_prefill_token_threshold: Annotated[int, Within(ge=0, le=10**7), tokens("--long-prefill-token-threshold")] = 0
    accepting: Accepting = "sampled"
    watermark: Annotated[float, Within(ge=0, le=0.99), share("--watermark")] = 0.0
    prefill_schedule_interval: Annotated[int, Within(ge=1, le=1000), count("--prefill-schedule-interval")] = 1
    kv_offload_bytes: Annotated[int, Within(ge=0, le=10**15), gib("--kv-offload-gb")] = 0
    prefill_replicas: Annotated[int, Within(ge=0, le=4096), count("--prefill-replicas")] = 0
    routing: Routing = "least-loaded"
    preemption_mode: Literal["recompute", "swap"] = "recompute"
    step_time_s: Annotated[float | None, Within(gt=0), _seconds("--step-time")] = None


def length_of(text: str | int | None, sigma: float | None, flag: str) -> Length | None:
    """A length as it is written: `512`, or `100-2000` for every length from 100 to 2,000 alike.

    Raises:
        KvcalcError: neither, or a spread beside two ends.

    >>> length_of("1-32", None, "--osl")
    Length(mean=16.5, low=1, high=32, sigma=None)
    """
    if text is None:
        return None
    ends = re.fullmatch(r"\s*([0-9.]+[a-zA-Z]?)\s*-\s*([0-9.]+[a-zA-Z]?)\s*", str(text))
    if ends is None:
        mean = text if isinstance(text, int) else parse_tokens(text, flag)
        _check(mean >= 1, f"{flag}: at least one token", "a request without tokens is refused by every engine")
        return Length(mean=mean, sigma=sigma)
    low, high = parse_tokens(ends[1], flag), parse_tokens(ends[2], flag)
    _check(1 <= low <= high, f"{flag}: {text} runs from {low} to {high}", "write the smaller end first: 100-2000")
    _check(sigma is None, f"{flag}: {text} and {flag}-sigma contradict each other", "give one of the two")
    return Length(mean=(low + high) / 2, low=low, high=high)


def _check(good: bool, message: str, hint: str) -> None:
    if not good:
        raise KvcalcError(message, hint=hint)
