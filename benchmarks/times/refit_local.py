"""All constants of llama.cpp again: kernels by backend, builds and class of device, ranges from left-out devices."""

import datetime
import json
import shlex
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from accuracy_reports import speed_points
from times.fit_local import FAMILIES, Family, Problem, fit, kernels_of
from times.fit_ranges import fit_range
from times.fit_split import fit_split
from times.local_points import LocalPoint, point_of, row_of_case
from times.refit_kernels import rounded, write

from kvcalc.catalog.files.toml import data_dir
from kvcalc.catalog.ggml import NATIVE, forget_rows
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import MoeMlp
from kvcalc.timing.ranges import FILE as RANGES

PARTS_HEADER = """llama.cpp's models in parts: on several devices, and partly on the host. `split` is written by
benchmarks/refit.py; `host` is set by hand."""
CASES = ("llamacpp_xd", "llamacpp_board")
HEADER = """llama.cpp's kernels: by backend, since a month's builds, and by class of device; seconds and shares.
Written by benchmarks/refit.py. `points` and `devices` are behind a row's family, `error` is the median on them."""
MOST_HELD = 0.9  # share of points that a range holds at most, by the constants without their device and by the shipped
REPORTS = "speed.json"  # beside the results of llama-bench
REPORTED = ("local decode", "local prompts")
FEW_DEVICES = 2  # a range of fewer devices is that of a wider kind, or set by hand
LIKELY = {"HIP?": "HIP"}  # decode runs on AMD cards under Linux: fitted, never scored


class Residual(NamedTuple):
    """Logs of measured / predicted."""

    left_out: float  # by constants that were fitted without its device
    shipped: float
    device: str
    is_report: bool  # a result of llama-bench, or a stranger's


def training(points_file: Path) -> list[LocalPoint]:
    """What is fitted: the file's rows of quality 1 and 2, and the llama.cpp cases of the folder beside it."""
    shared = points_file.resolve().parents[1]
    configs = shared / "model_configs"
    rows = [row for row in json.loads(points_file.read_text(encoding="utf-8")) if _fitted(row)]
    for name in CASES:
        path = shared / "perf_cases" / f"{name}.json"
        for case in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
            try:
                rows.append(row_of_case({key: value for key, value in case.items() if value is not None}))
            except KvcalcError:
                continue
    found = []
    for row in rows:
        clean = {key: value for key, value in row.items() if value is not None}
        try:
            found.append(point_of(clean | {"backend": LIKELY.get(row["backend"], row["backend"])}, configs))
        except (KvcalcError, KeyError):
            continue  # accuracy_local.py says why
    return found


def _fitted(row: dict[str, Any]) -> bool:
    known = row["engine"] == "llama.cpp" and row.get("quality", 1) <= 2 and bool(row.get("gpu"))
    return known and (row["backend"] != "HIP?" or row["test"] == "tg")


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: rounded(value) if isinstance(value, dict) else value for key, value in rounded(row).items()}


def problems(points: Sequence[LocalPoint]) -> list[tuple[Family, Problem]]:
    found = []
    for family in FAMILIES:
        mine = [point for point in points if family.takes(point)]
        if mine:
            found.append((family, Problem(family, mine)))
    return found


def left_out(problem: Problem, whole: Any, wanted: set[str] | None = None) -> Any:
    """Seconds of every point by constants that were fitted without its device."""
    found = problem.seconds(whole)
    devices = np.array(problem.devices)
    usual = np.array([value for _, value, _ in problem.family.parameters])
    for device in sorted(set(problem.devices)):
        mine = devices == device
        if wanted is not None and device not in wanted:
            continue
        values = usual if mine.all() else fit(problem.part((~mine).tolist()), whole)
        found[mine] = problem.seconds(values)[mine]
    return found


def left_out_seconds(points: Sequence[LocalPoint], points_file: Path) -> list[float]:
    """One prediction a point, its device left out of the fit; `points` are rows of the file."""
    by_row: dict[str, float] = {}
    for _, problem in problems(training(points_file)):
        seconds = left_out(problem, fit(problem), {point.device for point in points})
        by_row |= {point.row["id"]: float(one) for point, one in zip(problem.points, seconds, strict=True)}
    return [by_row[point.row["id"]] for point in points]


def left_out_cells(points: Sequence[LocalPoint]) -> list[float]:
    """One prediction a point by constants fitted to these points without its cell (model x device)."""
    found: dict[int, float] = {}
    for _, problem in problems(points):
        whole = fit(problem)
        cells = [(point.row.get("model"), point.device) for point in problem.points]
        for cell in sorted(set(cells), key=str):
            mine = np.array([one == cell for one in cells])
            seconds = (
                problem.seconds(fit(problem.part((~mine).tolist()), whole))
                if not mine.all()
                else problem.seconds(whole)
            )
            found |= {id(problem.points[place]): float(seconds[place]) for place in np.flatnonzero(mine).tolist()}
    return [found[id(point)] for point in points]


def refit(points_file: Path, save: bool) -> None:
    """Fit, print and, if asked, write kernels; then ranges from residuals of left-out devices."""
    rows: list[dict[str, Any]] = []
    residuals: dict[str, list[Residual]] = defaultdict(list)
    date = datetime.date.today().isoformat()
    points = training(points_file)
    if save:
        _write_split(fit_split(points))
    for family, problem in problems(points):
        values = fit(problem)
        shipped = problem.seconds(values)
        error = float(np.median(np.abs(shipped / problem.measured - 1)))
        kept = left_out(problem, values)
        away = float(np.median(np.abs(kept / problem.measured - 1)))
        devices = len(set(problem.devices))
        print(f"{family.name:<16}{len(problem.points):>6}{devices:>4}{100 * error:>8.1f} %{100 * away:>8.1f} %")
        evidence = {
            "evidence": f"llama-bench: {len(problem.points)} points of {devices} devices; {date}",
            "points": len(problem.points),
            "error": error,
        }
        rows += [_rounded(row) for row in kernels_of(family, values, evidence)]
        left, within = np.log(problem.measured / kept), np.log(problem.measured / shipped)
        for point, without, fitted in zip(problem.points, left.tolist(), within.tolist(), strict=True):
            found = Residual(without, fitted, point.device, "engine" in point.row)
            for kind in kinds_of(family.backend, point.decodes, point.replica.routed):
                residuals[kind].append(found)
    if save:
        write(data_dir("gpu_specs") / "llamacpp" / "kernels.toml", HEADER, {"kernels": rows})
        forget_rows()
    for kind, residual in reported(points_file.with_name(REPORTS)):
        residuals[kind].append(residual)
    ranges = {kind: scaled_range(kind, some) for kind, some in sorted(residuals.items())}
    for kind, one in ranges.items():
        print(f"{kind:<28}{one['low']:>7.2f}{one['high']:>7.2f}{one['points']:>7}{one['cells']:>5}")
    if save:
        _write_ranges(ranges)


def _write_split(found: dict[str, Any]) -> None:
    path = data_dir("gpu_specs") / "llamacpp" / "parts.toml"
    host = tomllib.loads(path.read_text(encoding="utf-8"))["host"]
    write(path, PARTS_HEADER, {"host": host, "split": rounded(found)})
    forget_rows()


def kinds_of(backend: str, decodes: bool, routed: bool) -> tuple[str, str]:
    """The range that a residual counts for, and the one that stands in where too few devices are behind that."""
    what = "decode" if decodes else "prompts"
    return f"llamacpp-{backend}-{'moe' if routed else 'dense'}-{what}", f"llamacpp-{backend}-{what}"


def reported(path: Path) -> Iterator[tuple[str, Residual]]:
    """(kind, residual) of strangers' reports, whom no constant saw; by the kernels as shipped."""
    for case in json.loads(path.read_text(encoding="utf-8")) if path.is_file() else ():
        if case["group"] not in REPORTED or case.get("doubtful_facts"):
            continue
        words = shlex.split(case["command"])
        gpu = load_gpu(words[words.index("--gpu") + 1])
        routed = any(isinstance(group.mlp, MoeMlp) for group in load_model(str(path.parent / words[2])).groups)
        for point in speed_points(case, path.parent):
            if point.have and point.counts:
                ratio = float(np.log(point.have / point.want))
                for kind in kinds_of(NATIVE[gpu.vendor], case["group"] == REPORTED[0], routed):
                    yield kind, Residual(ratio, ratio, f"report of {gpu.name}", True)


def scaled_range(kind: str, every: Sequence[Residual]) -> dict[str, Any]:
    """The range by devices; cut where it holds more than MOST_HELD of results of llama-bench.

    Those before scoreboards and old tables, where enough devices have them: many results of one device are alike.
    """
    found = fit_range(np.array([one.left_out for one in every]), [one.device for one in every])
    ends = float(np.log(found.low)), float(np.log(found.high))
    reports = [one for one in every if one.is_report]
    for ratios in ([one.left_out for one in reports], [one.shipped for one in reports]):
        ends = cut(ends, np.array(ratios))
    low, high = np.exp(ends)
    return rounded(
        {"kind": kind, "low": float(low), "high": float(high)} | {"points": found.points, "cells": found.cells}
    )


def cut(ends: tuple[float, float], ratios: Any) -> tuple[float, float]:
    """A range cut at so far from 1 that it holds MOST_HELD of some ratios at most: all are logarithms.

    >>> cut((-0.1, 0.9), np.array([0.0, 0.1, 0.2, 0.3, 0.4]))
    (-0.1, 0.35)
    """
    low, high = ends
    held = np.sort(np.abs(ratios[(ratios >= low) & (ratios <= high)]))
    most = int(MOST_HELD * len(ratios))
    if not 0 < most < len(held):
        return ends
    furthest = float(held[most - 1] + held[most]) / 2
    return max(low, -furthest), min(high, furthest)


def _write_ranges(ranges: dict[str, dict[str, Any]]) -> None:
    """Replace those of enough devices; the others stay, by judgement."""
    text = RANGES.read_text(encoding="utf-8")
    header = "\n".join(line[2:] for line in text.splitlines() if line.startswith("# "))
    kept = {table["kind"]: table for table in tomllib.loads(text)["range"]}
    kept |= {kind: found for kind, found in ranges.items() if found["cells"] >= FEW_DEVICES}
    for kind in list(kept):  # what stands in for neither is nobody's
        _, _, rest = kind.partition("llamacpp-")
        backend, _, what = rest.rpartition("-")
        if {f"llamacpp-{backend}-dense-{what}", f"llamacpp-{backend}-moe-{what}"} <= set(kept):
            del kept[kind]
    write(RANGES, header, {"range": [kept[kind] for kind in sorted(kept)]})
