"""How each limit is judged: which figure, on which side of its range, and which way it must lie."""

from collections.abc import Callable
from functools import cached_property

from kvcalc.answers.check.simulated import simulated_figure, simulation
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.money import HOURS_A_MONTH
from kvcalc.answers.verdict import unfit_reason
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Range
from kvcalc.results.simulate import SimulateResult
from kvcalc.results.size import SizeResult
from kvcalc.specs.budget import SIMULATED, Limits
from kvcalc.units import GIB

UNLIMITED = float("inf")  # a model that keeps nothing holds any number of sequences
UNFIT = "does not fit"  # what every limit of such a deployment was judged on
AT_LEAST, AT_MOST, EQUAL = "at least", "at most", "equal"

Judged = tuple[float | bool | None, str, str]  # what is there, which way it must lie, and what it was judged on


class Judging:
    """A deployment that is judged: its answer of `size`, its limits and, once for all of them, a simulation."""

    def __init__(self, deployed: Deployed, result: SizeResult, limits: Limits) -> None:
        self.deployed, self.result, self.limits = deployed, result, limits

    @cached_property
    def simulated(self) -> SimulateResult:
        return simulation(self.deployed.question, self.limits)


def judged(name: str, asked: Judging) -> Judged:
    """A limit's figure.

    Raises:
        KvcalcError: there is none of the kind that the file asks for.
    """
    if name == "fits":
        return _fits(asked.deployed, asked.limits)
    if name == "max-ttft":
        return _ttft(asked.deployed, asked.result, asked.limits)
    if name in SIMULATED:
        return simulated_figure(name, asked.simulated, asked.limits)
    return FIGURES[name](asked.result, asked.limits)


def _fits(deployed: Deployed, limits: Limits) -> Judged:
    """At the low end of the pool; with `judge = "value"` at its value."""
    end, said = ("value", "pool") if limits.judge == "value" else ("low", "pool's low")
    unfit = unfit_reason(deployed, Performance(deployed).point, end="value" if end == "value" else "low")
    return unfit is None, EQUAL, said


def _time(result: SizeResult, limits: Limits, figure: str, way: str) -> Judged:
    """A figure of time on the side that the file asks for: the estimate's worse end, its value, or the bound."""
    if limits.judge == "bound":
        if result.serving is not None:
            raise KvcalcError(
                'judge = "bound" has no serving figures', hint="leave input-len and output-len out, or judge by value"
            )
        name = "step_time_s" if figure == "tpot_s" else figure
        value = None if result.bound is None else getattr(result.bound, name)
        return value, way, "bound" if value is not None else "nothing fits"
    found = result.headline
    if found is None:
        return None, way, "nothing fits"
    if found.basis == "bound":
        raise KvcalcError(
            "there is no estimate to judge a limit on time or cost by", hint='set judge = "bound" in the limits'
        )
    return _estimated(getattr(found, figure), limits, way, "serving" if found.basis == "serving" else "estimate")


def _estimated(estimate: Range | None, limits: Limits, way: str, basis: str) -> Judged:
    if estimate is None:
        return None, way, "one token out" if basis == "serving" else "nothing fits"
    if limits.judge == "value":
        return estimate.value, way, basis
    worse = estimate.high if way == AT_MOST else estimate.low
    return worse, way, f"{basis}'s high" if way == AT_MOST else f"{basis}'s low"


def _ttft(deployed: Deployed, result: SizeResult, limits: Limits) -> Judged:
    """Serving's where lengths are given, else of a prompt that has the engine to itself."""
    if result.serving is not None and limits.judge != "bound":
        return _estimated(result.serving.ttft_s, limits, AT_MOST, "serving")
    if result.batch is None:
        return None, AT_MOST, "nothing fits"
    alone = Performance(deployed).alone(deployed.question.workload.input_len or result.context)
    if limits.judge == "bound":
        return alone.bound_s, AT_MOST, "bound"
    if alone.estimate is None:
        raise KvcalcError("there is no estimate to judge max-ttft by", hint='set judge = "bound" in the limits')
    return _estimated(alone.estimate, limits, AT_MOST, "estimate")


# How each limit is judged: its figure, and whether the figure must be at least or at most the limit.
FIGURES: dict[str, Callable[[SizeResult, Limits], Judged]] = {
    "min-sequences": lambda r, _: (_held(r, r.kv_cache_max_concurrency), AT_LEAST, ""),
    "min-batch": lambda r, _: (_held(r, r.max_batch), AT_LEAST, ""),
    "min-tokens": lambda r, _: (_held(r, r.kv_cache_size_tokens), AT_LEAST, ""),
    "max-weight-gib": lambda r, _: (r.weight_bytes_per_gpu / GIB, AT_MOST, ""),
    "max-kv-bytes-per-token": lambda r, _: (r.kv_cache_bytes_per_token, AT_MOST, ""),
    "max-tpot": lambda r, limits: _time(r, limits, "tpot_s", AT_MOST),
    "min-tokens-per-second": lambda r, limits: _time(r, limits, "output_tokens_per_s", AT_LEAST),
    "max-usd-per-mtok": lambda r, limits: _time(r, limits, "usd_per_million_output_tokens", AT_MOST),
    "max-usd-per-month": lambda r, _: (_month(r), AT_MOST, f"{HOURS_A_MONTH} hours"),
    "max-gpus": lambda r, _: (r.gpus, AT_MOST, ""),
}


def _held(result: SizeResult, value: float | None) -> float | None:
    """Nothing is held where the pool is not predicted or the engine does not start."""
    if result.kv_pool_bytes_per_gpu is None:
        return None
    return UNLIMITED if value is None else value


def _month(result: SizeResult) -> float | None:
    """The bill of a month."""
    return None if result.usd_per_hour is None else HOURS_A_MONTH * result.usd_per_hour
