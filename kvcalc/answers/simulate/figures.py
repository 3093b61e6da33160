"""From runs to figures: percentiles, goodput and use; a range where there are three runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from kvcalc.answers.simulate.runs import Outcome
from kvcalc.results.base import Range
from kvcalc.results.simulate import Percentiles, PriorityClass, Value
from kvcalc.simulator.metrics import gap_at
from kvcalc.simulator.requests import Requests

PERCENTS = (50.0, 90.0, 95.0, 99.0, 100.0)


@dataclass(frozen=True)
class Latencies:
    """Arrays over the requests of one run, in seconds."""

    outcome: Outcome
    requests: Requests

    @cached_property
    def sent(self) -> Any:
        return _array(self.outcome.seen.sent_s)

    @cached_property
    def ttft(self) -> Any:
        return _array(self.outcome.seen.first_s) - self.sent

    @cached_property
    def e2e(self) -> Any:
        return _array(self.outcome.seen.last_s) - self.sent

    @cached_property
    def tpot(self) -> Any:
        """Of requests with more than one token out; NaN for others."""
        import numpy as np

        further = np.asarray(self.requests.output, dtype=float) - 1
        span = _array(self.outcome.seen.last_s) - _array(self.outcome.seen.first_s)
        return np.where(further > 0, span / np.maximum(further, 1), np.nan)

    @cached_property
    def span_s(self) -> float:
        """From the first request to the last answer."""
        return float(_array(self.outcome.seen.last_s).max() - self.sent.min())

    @cached_property
    def arrivals_s(self) -> float:
        """From the first request to the last one."""
        return float(self.sent.max() - self.sent.min())


def _array(values: Any) -> Any:
    import numpy as np

    return np.frombuffer(values)


def percentile(values: Any, percent: float) -> float | None:
    """By linear interpolation, values that are not there left out."""
    import numpy as np

    found = values[~np.isnan(values)]
    return float(np.percentile(found, percent)) if len(found) else None


def spread(runs: Sequence[Latencies], of: Callable[[Latencies], float | None]) -> Value:
    """One figure of the run, or of the three runs as a range."""
    return ranged([of(one) for one in runs])


def ranged(found: Sequence[float | None]) -> Value:
    """The first value within all of them; None where one is not known."""
    values = [one for one in found if one is not None]
    if len(values) < len(found) or not values:
        return None
    return values[0] if len(values) == 1 else Range(value=values[0], low=min(values), high=max(values))


def percentiles(runs: Sequence[Latencies], name: str, which: Any = slice(None)) -> Percentiles:
    """Of `ttft`, `tpot` or `e2e`; of all requests, or of those that `which` marks."""
    return _joined([_summary(getattr(one, name)[which]) for one in runs])


def by_priority(runs: Sequence[Latencies]) -> tuple[PriorityClass, ...]:
    """The same percentiles for each priority; nothing where requests have none."""
    import numpy as np

    given = runs[0].requests.priority
    if given is None:
        return ()
    priorities = np.asarray(given)
    return tuple(
        PriorityClass(
            priority=one,
            requests=int((priorities == one).sum()),
            **{f"{name}_s": percentiles(runs, name, priorities == one) for name in ("ttft", "tpot", "e2e")},
        )
        for one in sorted(set(given))
    )


def gaps(runs: Sequence[Latencies]) -> Percentiles:
    """Between two tokens of one request, from the histogram."""
    return _joined([[_mean_gap(one), *(gap_at(one.outcome.gaps, p) for p in PERCENTS)] for one in runs])


def _mean_gap(one: Latencies) -> float | None:
    further = sum(one.outcome.gaps.values())  # where drafts are accepted several tokens come at once
    total = float((_array(one.outcome.seen.last_s) - _array(one.outcome.seen.first_s)).sum())
    return total / further if further else None


def _summary(values: Any) -> list[float | None]:
    import numpy as np

    found = values[~np.isnan(values)]
    if not len(found):
        return [None] * (1 + len(PERCENTS))
    return [float(found.mean()), *np.percentile(found, PERCENTS).tolist()]


def _joined(found: Sequence[Sequence[float | None]]) -> Percentiles:
    """The same figures of every run, each as a range."""
    columns = [ranged(column) for column in zip(*found, strict=True)]
    names = ("mean", "p50", "p90", "p95", "p99", "max")
    return Percentiles(**dict(zip(names, columns, strict=True)))


def meets(one: Latencies, ttft_s: float | None, tpot_s: float | None, e2e_s: float | None) -> Any:
    """Which requests keep every target; one token out has no time per token to keep."""
    import numpy as np

    good = np.ones(len(one.sent), dtype=bool)
    if ttft_s is not None:
        good &= one.ttft <= ttft_s
    if tpot_s is not None:
        good &= ~(one.tpot > tpot_s)
    if e2e_s is not None:
        good &= one.e2e <= e2e_s
    return good
