"""Ranges from left-out residuals: where 80 % of measured times of unseen cells fall, as shares of the estimate.

1. A point weighs 1/√(points of its cell), so that a large cell does not set the range alone.
2. The weighted 10 % and 90 % quantiles of ln(measured / estimated) are the range,
3. widened by 1.15 about their middle, for few cells know their own quantiles badly.
Coverage is counted on cells that are left out of these steps as well. Of decode strangers' reports count too, each
source as much as a cell. A GPU that was not measured is known no better than one that was: its range holds that one's.

The files say which kinds there are. A point speaks for the most special one of its kinds. The general ones are of
present-day serving; one with too few cells stays as it was set.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from times.fit_engines import Tables
from times.kernel_cases import Case, seconds
from times.kernel_points import KERNEL_KINDS, five_fold
from times.known import RANGES, kinds_of, tables
from times.left_out import left_out_all
from times.points import Point, is_rate, with_kernels
from times.refit_kernels import rounded

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.kernels import load_kernels
from kvcalc.specs.base import replace
from kvcalc.timing.engine_profiles import resolved
from kvcalc.timing.ranges import FILE

LOW, HIGH = 0.1, 0.9
WIDEN = 1.15
FEW_CELLS = 4  # a range of fewer cells is that of a wider kind, or set by hand
UNMEASURED = "-unmeasured"  # how the kinds of such GPUs end
STRANGER = "nobody"  # a maker of whose GPUs no class says anything
SERVING = ("tpot", "ttft", "alone")
Residuals = dict[str, list[tuple[float, Hashable]]]
Reported = tuple[Sequence[str], float, Hashable]  # kinds, the residual, where it was reported


class Range(NamedTuple):
    low: float
    high: float
    points: int
    cells: int
    coverage: float


def fit_range(log_ratios: Any, cells: Sequence[Hashable], sources: Collection[Hashable] = ()) -> Range:
    """The range of some left-out points, and its coverage on cells left out of it.

    `sources` are cells of few points that weigh as much as the median of the others.
    """
    low, high = _quantiles(log_ratios, cells, sources)
    inside = []
    for cell in sorted(set(cells), key=str):
        mine = np.array([one == cell for one in cells])
        if mine.all():
            continue
        kept = [one for one, is_mine in zip(cells, mine, strict=True) if not is_mine]
        left, right = _quantiles(log_ratios[~mine], kept, sources)
        inside.extend((log_ratios[mine] >= left) & (log_ratios[mine] <= right))
    coverage = float(np.mean(inside)) if inside else float("nan")
    return Range(float(np.exp(low)), float(np.exp(high)), len(cells), len(set(cells)), coverage)


def _quantiles(log_ratios: Any, cells: Sequence[Hashable], sources: Collection[Hashable]) -> tuple[float, float]:
    sizes = Counter(cells)
    usual = float(np.median([size**0.5 for cell, size in sizes.items() if cell not in sources] or [1.0]))
    weight = np.array([usual / sizes[cell] if cell in sources else sizes[cell] ** -0.5 for cell in cells])
    order = np.argsort(log_ratios)
    reached = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    low, high = np.interp([LOW, HIGH], reached, log_ratios[order])
    middle, half = (low + high) / 2, (high - low) / 2 * WIDEN
    return middle - half, middle + half


def fit_ranges(
    points: Sequence[Point], fitted: Tables, cases: Mapping[str, Sequence[Case]], reports: Iterable[Reported] = ()
) -> tuple[Tables, Tables]:
    """Ranges of the commands and of the benchmarks alone, from residuals of cells left out of every fit.

    `reports` are strangers' single figures, whom no constant saw; each source is a cell.
    """
    found = _kernels(cases)
    shipped, own = tables(FILE, "range"), tables(RANGES, "range")
    names = [row["kind"] for row in (*shipped, *own)]
    told = [point for point in points if point.case["group"] != "papers"]
    known = resolved(fitted)
    for point, have in zip(told, left_out_all(told, fitted), strict=True):
        _file(found, point, float(have), _spoken_for(point, kinds_of(point, known), names))
    unmeasured = _as_unmeasured([point for point in told if point.prepared.task in SERVING], fitted)
    for point, have in zip(unmeasured, left_out_all(unmeasured, fitted), strict=True):
        kinds = [f"{kind}{UNMEASURED}" for kind in kinds_of(point, known)]
        _file(found, point, float(have), _spoken_for(point, kinds, names))
    sources: set[Hashable] = set()
    for known_as, ratio, source in reports:
        kind = next((one for one in known_as if one in names and one in found), None)
        if kind is not None:
            found[kind].append((ratio, source))
            sources.add(source)
    return _written(found, shipped, sources), _written(found, own, sources)


def _spoken_for(point: Point, kinds: Sequence[str], names: Sequence[str]) -> str | None:
    """The kind that a residual counts for; those of old engines and static batches say nothing of today's serving."""
    mine = [kind for kind in kinds if kind in names]
    general = kinds[-1] if point.prepared.task not in SERVING else None
    return mine[0] if mine and mine[0] != general else None


def _file(found: Residuals, point: Point, have: float, kind: str | None) -> None:
    if kind is not None:
        ratio = have / point.measured if is_rate(point) else point.measured / have
        found[kind].append((float(np.log(ratio)), point.cell))


def _as_unmeasured(points: Sequence[Point], fitted: Tables) -> list[Point]:
    """The same points as if nothing like their GPU had been measured."""
    known = resolved(fitted)
    strangers = {
        name: replace(load_kernels(replace(load_gpu(name), name=STRANGER, vendor=STRANGER, compute_capability=None)),
                      like=None)
        for name in {point.setting.gpu.name for point in points}
    }  # fmt: skip
    return [with_kernels(point, strangers[point.setting.gpu.name], known) for point in points]


def _kernels(cases: Mapping[str, Sequence[Case]]) -> Residuals:
    found: Residuals = defaultdict(list)
    for group, kind in KERNEL_KINDS.items():
        if cases.get(group):
            ratios = np.log(seconds(cases[group]) / five_fold(group, cases[group]))
            found[kind] += [
                (float(ratio), (case["gpu"], str(case["op"]), case["engine"]))
                for ratio, case in zip(ratios, cases[group], strict=True)
                if np.isfinite(ratio)
            ]
    return found


def _written(found: Residuals, shipped: Tables, sources: Collection[Hashable]) -> Tables:
    """The rows of a file made again from the residuals of their kinds; those without stay as they are."""
    rows = []
    for row in shipped:
        some = found.get(row["kind"], [])
        cells = len({cell for _, cell in some})
        if cells < FEW_CELLS:
            rows.append(row)
            continue
        made = fit_range(np.array([ratio for ratio, _ in some]), [cell for _, cell in some], sources)
        print(f"{row['kind']:<34}{made.low:>7.2f}{made.high:>7.2f}{made.points:>7}{made.cells:>5}{made.coverage:>7.0%}")
        rows.append(rounded({"kind": row["kind"]} | made._asdict()))
    return holding(rows)


def holding(rows: Tables) -> Tables:
    """The rows, those of unmeasured GPUs at least as wide as those of measured ones."""
    measured = {f"{row['kind']}{UNMEASURED}": row for row in rows}
    found = []
    for row in rows:
        other = measured.get(row["kind"], row)
        found.append(row | {"low": min(row["low"], other["low"]), "high": max(row["high"], other["high"])})
    return found
