"""What `kvcalc simulate` draws: latencies by percentile against their targets, and the plots of its page."""

from kvcalc.render.page import Plot, Series, Target
from kvcalc.render.pages.simulate import page
from kvcalc.render.pages.simulate_sweep import sweep_page
from kvcalc.results.base import Range
from kvcalc.results.simulate import Percentiles, SimulateReport, SimulateResult, SweepReport, Value
from kvcalc.units import format_seconds

PERCENTS = ("p50", "p90", "p95", "p99", "max")


def pictures(report: SimulateReport) -> tuple[Plot, ...]:
    """Latencies, and the plots of the page: requests and the pool over time, goodput."""
    return (latencies(report.result), *(block for block in page(report).blocks if isinstance(block, Plot)))


def latencies(result: SimulateResult) -> Plot:
    """Time by percentile of requests, on a scale of logarithms."""
    kinds = (
        ("time to first token", result.ttft_s),
        ("time per output token", result.tpot_s),
        ("end to end", result.e2e_s),
    )
    return Plot(
        series=tuple(one for label, found in kinds if (one := _series(label, found)) is not None),
        x_label="percentile of requests",
        y_label="seconds",
        title="Latency",
        log_y=True,
        x_names=PERCENTS,
        points="time",
        targets=tuple(
            Target(f"{one.name.upper()} {format_seconds(one.limit_s)}", "y", one.limit_s) for one in result.targets
        ),
    )  # fmt: skip


def _series(label: str, found: Percentiles) -> Series | None:
    values = [_best(getattr(found, name)) for name in PERCENTS]
    kept = {float(place): value for place, value in enumerate(values, 1) if value}  # a logarithm has no zero
    if not kept:
        return None
    return Series(label, tuple(kept), tuple(kept.values()), tuple(map(format_seconds, kept.values())))


def _best(value: Value) -> float | None:
    return value.value if isinstance(value, Range) else value


def sweep_pictures(report: SweepReport) -> tuple[Plot, ...]:
    """Goodput against the rate, where that was swept; the 99th percentiles of latency else."""
    plots = tuple(block for block in sweep_page(report).blocks if isinstance(block, Plot))
    return plots or (_by_run(report),)


def _by_run(report: SweepReport) -> Plot:
    """One place a simulation, in the order of the table."""
    points = report.result.points
    names = tuple(", ".join(one.values.values()) for one in points)
    places = tuple(float(i) for i in range(1, len(points) + 1))
    series = []
    for label, field in (("time to first token", "ttft_s"), ("time per output token", "tpot_s")):
        values = [_best(getattr(one.result, field).p99) for one in points]
        if all(values):
            series.append(Series(label, places, tuple(value or 0.0 for value in values)))
    by = ", ".join(points[0].values)
    return Plot(tuple(series), by, "seconds", "99th percentile of latency", log_y=True, x_names=names)
