"""What `kvcalc simulate` shows of several simulations."""

from typing import Any

from kvcalc.render.page import Block, Page, Plot, Series, Table, alike, assumed
from kvcalc.render.pages.ranged import best, count, seconds
from kvcalc.render.pages.simulate import COLUMNS, verdict
from kvcalc.results.compare import SHORT
from kvcalc.results.simulate import SweepPoint, SweepReport
from kvcalc.units import format_count


def sweep_page(report: SweepReport) -> Page:
    """One row a simulation, and goodput against rate where that was swept."""
    points = report.result.points
    first = points[0].result
    names = tuple(points[0].values)
    shown = tuple(SHORT.get(name, name).replace("-", "-\n") for name in names)
    columns = (*shown, "verdict", "TTFT\np50", "p99", "TPOT\np50", "p99", "tokens/s", "goodput/s")
    rows = tuple(_sweep_row(point) for point in points)
    spare = (*alike(rows, range(len(names), len(columns))), len(names) + 3)
    return Page(
        title=f"{format_count(first.requests)} requests to {first.model}, {len(points)} ways",
        blocks=(Table(columns=columns, rows=rows, spare=spare), *_goodput_plot(points)),
        notes=assumed(report),
    )


def _sweep_row(point: SweepPoint) -> tuple[str, ...]:
    found = point.result
    latencies = (found.ttft_s.p50, found.ttft_s.p99, found.tpot_s.p50, found.tpot_s.p99)
    good = best(found.goodput_requests_per_s)
    return (
        *point.values.values(),
        verdict(found),
        *(seconds(value, short=True) for value in latencies),
        count(found.output_tokens_per_s),
        "-" if good is None else f"{good:.3g}",
    )


def _goodput_plot(points: tuple[SweepPoint, ...]) -> tuple[Block, ...]:
    """By rate; one line for each combination of the other flags."""
    lines: dict[str, list[tuple[float, float]]] = {}
    for point in points:
        if "request-rate" not in point.values:
            return ()
        label = ", ".join(f"{name} {value}" for name, value in point.values.items() if name != "request-rate")
        good = best(point.result.goodput_requests_per_s) or 0.0
        lines.setdefault(label, []).append((float(point.values["request-rate"]), good))
    series = tuple(
        Series(label, tuple(rate for rate, _ in sorted(found)), tuple(good for _, good in sorted(found)))
        for label, found in lines.items()
    )
    return (Plot(series, "requests/s that arrive", "requests/s that keep every target", "Goodput"),)


def sweep_rows(report: SweepReport) -> list[dict[str, Any]]:
    """For CSV: one line a simulation, latencies by percentile."""
    found = []
    for point in report.result.points:
        row: dict[str, Any] = dict(point.values)
        for name in ("ttft_s", "tpot_s", "itl_s", "e2e_s"):
            row |= {f"{name[:-2]}_{column}_s": best(getattr(getattr(point.result, name), column)) for column in COLUMNS}
        for name in ("output_tokens_per_s", "goodput_requests_per_s", "load", "preemptions", "prefix_hit_rate"):
            row[name] = best(getattr(point.result, name))
        found.append(row | {"verdict": point.result.verdict, "fit": point.result.fit})
    return found
