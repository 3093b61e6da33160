"""What `plan` takes beside the flags of every command."""

from typing import Annotated, Literal

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Frozen
from kvcalc.specs.constraints import FromText, Within
from kvcalc.specs.deployment import count, number, share, usd
from kvcalc.units import parse_count, parse_seconds

Objective = Literal["usd", "gpus", "tokens-per-gpu"]
Emit = Literal["vllm", "sglang", "trtllm", "llamacpp", "compose", "k8s"]
CONTAINERS = ("compose", "k8s")
Judge = Literal["value", "high"]


def _seconds(what: str) -> FromText:
    return FromText(parse_seconds, what)


class PlanSettings(Frozen):
    """The load, the targets that serving flags do not have, what there is, and what is best."""

    users: Annotated[int | None, Within(ge=1, le=10**8), count("--users")] = None
    think_s: Annotated[float | None, Within(ge=0, le=1e9), _seconds("--think-time")] = None
    request_rate: Annotated[float | None, Within(gt=0, le=1e9), number("--request-rate", "2.5")] = None
    requests_per_day: Annotated[float | None, Within(gt=0, le=1e12), number("--requests-per-day", "500k")] = None
    peak_factor: Annotated[float | None, Within(ge=1, le=1000), number("--peak-factor", "3")] = None
    e2e_s: Annotated[float | None, Within(gt=0), _seconds("--e2e")] = None
    judge: Judge = "value"
    percentile: Annotated[float | None, Within(gt=0, le=99.999), number("--percentile", "95")] = None
    seed: Annotated[int, Within(ge=0, le=2**63), count("--seed")] = 0
    trace: str | None = None
    objective: Objective = "usd"
    gpus_available: tuple[str, ...] = ()  # h100-sxm=16
    max_usd_per_hour: Annotated[float | None, Within(gt=0, le=1e9), FromText(usd, "--max-usd-per-hour")] = None
    utilization: Annotated[float | None, Within(gt=0, le=1), share("--utilization")] = None
    api_price: str | None = None  # input=0.50,cached=0.05,output=1.50
    emit: Emit | None = None
    emit_pools: bool = False
    top: Annotated[int, Within(ge=1, le=1000), count("--top")] = 10


def available(settings: PlanSettings) -> dict[str, int]:
    """How many of each GPU there are, by the name that was typed.

    Raises:
        KvcalcError: not a name and a whole number.

    >>> available(PlanSettings(gpus_available=("h100-sxm=16",)))
    {'h100-sxm': 16}
    """
    found: dict[str, int] = {}
    for text in settings.gpus_available:
        name, equals, number = text.rpartition("=")
        if not equals or not name:
            raise KvcalcError(f"--gpus-available: {text[:60]!r} names no number of GPUs", hint="write h100-sxm=16")
        found[name] = parse_count(number, "--gpus-available")
    return found
