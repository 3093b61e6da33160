"""Refit the constants of the time estimate from case files: kernels first, engines second, ranges last.

    python benchmarks/refit.py --cases DIR            # print residuals and left-out errors by fit
    python benchmarks/refit.py --cases DIR --write    # and write the data files
    python benchmarks/refit.py --cases DIR --check    # make all of them again, say what differs, leave them as they are

Kernels go to gpu_specs/kernels/, engines and ranges to kvcalc/timing/. Set by hand and kept: how far tokens agree on
experts, the rate of repeated cache reads, shares of kernels that no case measures alone.
"""

import argparse
import datetime
import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accuracy_time import read
from times import refit_local, refit_speculation
from times.by_hand import BY_HAND, BY_HAND_OF
from times.fit_engines import FITS, Tables, fitted, left_out
from times.fit_layers import evidence, fit_layers
from times.fit_ranges import fit_ranges
from times.kernel_cases import seconds
from times.kernel_points import KERNEL_KINDS, constants_of, five_fold, shipped
from times.known import ENGINES as OWN_ENGINES
from times.known import RANGES as OWN_RANGES
from times.known import shipped_tables
from times.known import tables as rows_of_file
from times.local_cases import PREFIX
from times.points import Point, point_of, predict
from times.refit_check import TOLERANCE, differences, kept
from times.refit_kernels import fit_all, generic, rounded, sources, write
from times.refit_speculation import SPECULATION
from times.reported import reported
from times.setting import Case, forget_machines

from kvcalc.catalog.files.toml import data_dir
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.kernels import forget_files
from kvcalc.errors import KvcalcError
from kvcalc.timing.engine_profiles import FILE as ENGINES
from kvcalc.timing.engine_profiles import resolved
from kvcalc.timing.ranges import FILE as RANGES

KERNELS = "Written by benchmarks/refit.py. Seconds, and shares of the data sheet's dense peak and bandwidth."
ENGINES_HEADER = """What engines add to their kernels, by engine and version. Seconds and factors.
Written by benchmarks/refit.py, which keeps what it does not fit. `points`, `cells` (model x GPU x engine) and `error`
(median) say what a profile's constants were fitted to."""
OWN_HEADER = """What the benchmarks know beside the shipped constants, in their form: engines that no command has,
single kernels. Written by benchmarks/refit.py."""
RANGES_HEADER = """Where 80 % of measured times of left-out cells fall, as shares of the estimate. Written by
benchmarks/refit.py. `coverage` is of cells that were left out of the range too."""


def fit_kernels(cases: Mapping[str, Sequence[Case]], save: bool) -> None:
    """Fit, print and write kernels."""
    for group in sorted(KERNEL_KINDS):
        if not cases.get(group):
            continue
        have, want = shipped(group, cases[group])[0], seconds(cases[group])
        kept = five_fold(group, cases[group])
        _line(group, len(want), None, constants_of(group, cases[group]), have / want - 1, kept / want - 1)
    if not save:
        return
    tables = fit_all(cases)
    folder, date = data_dir("gpu_specs") / "kernels", datetime.date.today().isoformat()
    measured = defaultdict(list)
    for group in KERNEL_KINDS:
        for case in cases.get(group, ()):
            measured[load_gpu(case["gpu"]).name].append(case)
    layers = fit_layers({name: table["attention"] for name, table in tables.items()})
    for name in sorted(tables.keys() | layers.keys()):
        found: dict[str, Any] = {"evidence": sources(measured[name]) if name in tables else evidence(), "date": date}
        for more in (BY_HAND_OF.get(name, {}), layers.get(name, {}), tables.get(name, {})):
            for key, value in more.items():
                found[key] = [*found.get(key, []), *value] if isinstance(value, list) else value
        write(folder / f"{name}.toml", KERNELS, found)
    shared = {"evidence": "medians over the measured GPUs", "date": date} | BY_HAND
    write(folder / "generic.toml", KERNELS, shared | generic(tables))
    forget_files()
    forget_machines()


def points_of(cases: Mapping[str, Sequence[Case]], tables: Tables) -> list[Point]:
    found = []
    for group in sorted(cases):
        for case in cases[group] if not group.startswith(("k_", PREFIX)) else ():
            try:
                found.append(point_of(case, resolved(tables)))
            except KvcalcError:
                continue  # accuracy_time.py lists it
    return found


def fit_engines(points: Sequence[Point], tables: Tables, leave_out: bool = True) -> Tables:
    """Every fit in turn; prints what it was fitted to and how well, and on request how well without each cell."""
    for fit in FITS:
        mine = [point for point in points if fit.chosen(point)]
        if len(mine) <= len(fit.constants):
            continue
        tables = fitted(fit, mine, tables)
        want = np.array([point.measured for point in mine])
        error = predict(mine, resolved(tables)) / want - 1
        cells = len({point.cell for point in mine})
        without = left_out(fit, mine, tables) / want - 1 if leave_out else np.full(len(want), np.nan)
        _line(fit.name, len(mine), cells, len(fit.constants), error, without)
        by_name = {table["name"]: table for table in tables}
        values = {f"{one.profile}.{one.field}": by_name[one.profile][one.field] for one in fit.constants}
        print("    " + ", ".join(f"{name} {value:.3g}" for name, value in values.items()))
        evidence = {"points": len(mine), "cells": cells, "error": float(np.median(np.abs(error)))}
        for name in {one.profile for one in fit.constants} & {fit.name}:
            by_name[name] |= evidence
    return [rounded(table) for table in tables]


def _line(name: str, points: int, cells: int | None, constants: int, error: Any, left_out_error: Any) -> None:
    inside = 100 * float(np.nanmedian(np.abs(error)))
    outside = 100 * float(np.nanmedian(np.abs(left_out_error)))
    print(f"{name:<28}{points:>7}{cells or '':>5}{constants:>5}{inside:>8.1f} %{outside:>8.1f} %")


def make(folder: Path, save: bool, kernels: bool = True, ranges: bool = True) -> None:
    """Everything again, in the order in which it rests on each other. Ranges take longest: each cell is left out."""
    cases = read(folder)
    print(f"{'':<28}{'points':>7}{'cell':>5}{'cons':>5}{'fitted':>10}{'left out':>10}")
    if kernels:
        fit_kernels(cases, save)
    points = points_of(cases, shipped_tables())
    tables = fit_engines(points, shipped_tables(), leave_out=ranges)
    reports = folder.resolve().parent / "reports"
    strangers = reported(reports / "speed.json")
    around, own = fit_ranges(points, tables, cases, strangers) if ranges else ([], [])
    if save:
        mine = {table["name"] for table in rows_of_file(OWN_ENGINES, "profile")}
        write(ENGINES, ENGINES_HEADER, {"profile": [table for table in tables if table["name"] not in mine]})
        write(OWN_ENGINES, OWN_HEADER, {"profile": [table for table in tables if table["name"] in mine]})
    if save and ranges:
        write(RANGES, RANGES_HEADER, {"range": around})
        write(OWN_RANGES, OWN_HEADER, {"range": own})
    refit_speculation.refit(folder, reports / "speed.json", save)
    if (reports / "llama_bench.json").is_file():
        print("\nllama.cpp: points, devices, error, left out by device")
        refit_local.refit(reports / "llama_bench.json", save)


def data_files() -> list[Path]:
    """What is written."""
    specs = data_dir("gpu_specs")
    kernels = [path for path in sorted((specs / "kernels").glob("*.toml")) if path.stem != "classes"]
    return [
        *kernels,
        ENGINES,
        OWN_ENGINES,
        RANGES,
        OWN_RANGES,
        SPECULATION,
        *(specs / "llamacpp" / f"{name}.toml" for name in ("kernels", "parts")),
    ]


def check(folder: Path, ranges: bool) -> int:
    """1 where what is made again is not what is shipped."""
    found = 0
    with kept(data_files()) as shipped:
        make(folder, save=True, ranges=ranges)
        for path, before in shipped.items():
            for line in differences(before, tomllib.loads(path.read_text(encoding="utf-8")), path.stem):
                print(f"differs: {line}")
                found += 1
    print(f"\n{len(shipped)} data files made again: {found or 'no'} differences above {TOLERANCE:.0%}")
    return int(found > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=Path, required=True, help="folder of case files")
    parser.add_argument("--write", action="store_true", help="write the data files")
    parser.add_argument("--check", action="store_true", help="exit 1 where the data files would be others")
    parser.add_argument("--engines-only", action="store_true", help="take the kernels as they are")
    parser.add_argument("--no-ranges", action="store_true", help="leave the ranges of servers as they are: much faster")
    arguments = parser.parse_args()
    if arguments.check:
        return check(arguments.cases, not arguments.no_ranges)
    make(arguments.cases, arguments.write, not arguments.engines_only, not arguments.no_ranges)
    return 0


if __name__ == "__main__":
    sys.exit(main())
