"""How far kvcalc's times are from measured ones.

    python benchmarks/accuracy_time.py --cases DIR              # the shipped constants, nothing fitted
    python benchmarks/accuracy_time.py --cases DIR --refit      # left-out errors too: whole cells, or fifths of kernels
    python benchmarks/accuracy_time.py --cases DIR --leave-out model --leave-out gpu     # serving without whole models
    python benchmarks/accuracy_time.py --cases DIR --json

A case is answered from its own dimensions, element types and GPU. Cases of quality 3 are left out; what cannot be
expressed is listed with its reason.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, get_args

import command_line
import numpy as np
from times.fit_engines import Whole
from times.kernel_cases import seconds
from times.kernel_points import KERNEL_KINDS, ODD, constants_of, five_fold, reason_of, shipped
from times.known import known_profiles, known_ranges, range_of
from times.left_out import constants_behind, left_out_all
from times.local_cases import PREFIX, answer_case, left_out_cases
from times.points import Point, is_rate, point_of, predict
from times.wholes import serving_errors

from kvcalc.timing.ranges import Spread

SKIPPED = ("spec", "spec_al")  # benchmarks/accuracy_speculation.py
NOT_COUNTED = ("ratio", "mbu", "achieved_TFLOPS", "achieved_GBps")  # neither times nor throughputs


@dataclass
class Answer:
    """One case: what kvcalc says, what was measured, or why there is no answer."""

    case: dict[str, Any]
    row: str
    kind: str = ""
    have: float | None = None
    low: float | None = None
    high: float | None = None
    left_out: float | None = None
    reason: str | None = None
    point: Point | None = None  # of an end-to-end case that can be expressed

    @property
    def cell(self) -> tuple[Any, ...]:
        return self.case.get("model"), self.case["gpu"], self.case["engine"]

    def holds(self, predicted: float) -> bool:
        """Whether the measured value is in the range, moved to this prediction."""
        moved = predicted / (self.have or 1)
        return bool((self.low or 0) * moved <= self.case["value"] <= (self.high or 0) * moved)


def read(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Cases by group: the one that a case names, else the name of its file. A null says nothing."""
    found = defaultdict(list)
    for path in sorted(folder.glob("*.json")):
        for said in json.loads(path.read_text(encoding="utf-8")):
            case = {key: value for key, value in said.items() if value is not None}
            group = case.get("group", path.stem)
            if group not in SKIPPED and case.get("quality") != 3:
                found[group].append(case)
    return dict(found)


def answer_kernels(group: str, cases: list[dict[str, Any]], refit: bool) -> list[Answer]:
    have, reasons = shipped(group, cases)
    around = known_ranges()[KERNEL_KINDS.get(group, "experts")]
    answers = [Answer(case, group, around.kind, reason=reasons.get(place)) for place, case in enumerate(cases)]
    places = [place for place in range(len(cases)) if place not in reasons]
    good = [cases[place] for place in places]
    kept = five_fold(group, good) if refit and good else np.full(len(good), np.nan)
    for place, measured, without in zip(places, seconds(good), kept, strict=True):
        to_unit = cases[place]["value"] / measured
        _fill(answers[place], float(have[place]) * to_unit, around, rate=False)
        answers[place].left_out = None if np.isnan(without) else float(without) * to_unit
    return answers


def answer_points(groups: dict[str, list[dict[str, Any]]], refit: bool) -> list[Answer]:
    answers, points = [], []
    known, ranges = known_profiles(), known_ranges()
    for group, cases in groups.items():
        metrics = {case["metric"] for case in cases if case["metric"] not in NOT_COUNTED}
        for case in cases:
            if case["metric"] in NOT_COUNTED:
                continue
            one = Answer(case, group if len(metrics) == 1 else f"{group}:{case['metric']}")
            answers.append(one)
            try:
                points.append((one, point_of(case, known)))
            except ODD as error:
                one.reason = reason_of(error)
    only = [point for _, point in points]
    kept = left_out_all(only) if refit else [None] * len(points)
    for (one, point), have, without in zip(points, predict(only, known), kept, strict=True):
        around = range_of(point, known, ranges)
        _fill(one, float(have), around, is_rate(point))
        one.kind, one.point = around.kind, point
        one.left_out = None if without is None else float(without)
    return answers


def answer_local(groups: dict[str, list[dict[str, Any]]], refit: bool) -> list[Answer]:
    """llama.cpp, through its own kernels."""
    answers, found = [], []
    for group, cases in groups.items():
        for case in cases:
            one, local = Answer(case, f"{group}:{case['metric']}"), answer_case(case)
            one.kind, one.have, one.low, one.high, one.reason = local[1:]
            answers.append(one)
            found.append(local)
    if refit:
        for one, without in zip(answers, left_out_cases(found), strict=True):
            one.left_out = without
    return answers


def _fill(one: Answer, have: float, around: Spread, rate: bool) -> None:
    if not isfinite(have):
        one.reason = "no finite answer"
        return
    one.have = have
    one.low, one.high = (have / around.high, have / around.low) if rate else (have * around.low, have * around.high)


def summary(name: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Errors of the answers of one row."""
    good = [one for one in answers if one.have is not None]
    row: dict[str, Any] = {"group": name, "points": len(good), "left_out": len(answers) - len(good)}
    ratio = np.array([one.have / one.case["value"] for one in good if one.have is not None])
    error = np.abs(ratio - 1)
    inside = [one.holds(one.have) for one in good if one.have is not None]
    without = [(one, abs(one.left_out / one.case["value"] - 1)) for one in good if one.left_out is not None]
    kept = [one.holds(one.left_out) for one in good if one.left_out is not None]
    cells = defaultdict(list)
    for one, one_error in without:
        cells[one.cell].append(one_error)
    nothing = not good
    return row | {
        "median_abs_error": None if nothing else float(np.median(error)),
        "mean_abs_error": None if nothing else float(np.mean(error)),
        "p90_abs_error": None if nothing else float(np.quantile(error, 0.9)),
        "bias": None if nothing else float(np.median(ratio) - 1),
        "coverage": None if nothing else float(np.mean(inside)),
        "cv_median_abs_error": float(np.median([one_error for _, one_error in without])) if without else None,
        "cv_mean_over_cells": float(np.mean([np.median(some) for some in cells.values()])) if without else None,
        "cv_coverage": float(np.mean(kept)) if kept else None,
        "constants": constants_behind([one.point for one in good if one.point is not None]),
    }


def by(key: str, answers: Iterable[Answer]) -> list[dict[str, Any]]:
    parts = defaultdict(list)
    for one in answers:
        parts[getattr(one, key)].append(one)
    return [summary(name, some) for name, some in sorted(parts.items()) if name]


def result(folder: Path, refit: bool, wholes: Sequence[Whole] = ()) -> dict[str, Any]:
    groups = read(folder)
    answers = []
    for group in sorted(groups):
        if group.startswith("k_"):
            answers += answer_kernels(group, groups[group], refit)
    local = {name: cases for name, cases in groups.items() if name.startswith(PREFIX)}
    answers += answer_local(local, refit)
    others = {name: cases for name, cases in groups.items() if not name.startswith(("k_", PREFIX))}
    answers += answer_points(others, refit)
    rows, kinds = by("row", answers), by("kind", answers)
    for group, kind in KERNEL_KINDS.items():
        good = [one.case for one in answers if one.row == group and one.have is not None]
        for row in (*rows, *kinds):
            if good and row["group"] in (group, kind):
                row["constants"] = constants_of(group, good)
    points = [
        {"id": one.case["id"], "have": one.have, "low": one.low, "high": one.high, "want": one.case["value"],
         "reason": one.reason}
        for one in answers
    ]  # fmt: skip
    expressed = [one.point for one in answers if one.point is not None]
    served = serving_errors(expressed, wholes) if wholes else []
    return {"groups": rows, "kinds": kinds, "points": points, "wholes": served}


def table(rows: Sequence[dict[str, Any]]) -> str:
    names = ("median", "mean", "p90", "bias", "cover", "cv", "cells", "cvcover")
    keys = ("median_abs_error", "mean_abs_error", "p90_abs_error", "bias", "coverage", "cv_median_abs_error",
            "cv_mean_over_cells", "cv_coverage")  # fmt: skip
    lines = [f"{'':<44}{'points':>7}{'none':>6}{'consts':>8}" + "".join(f"{name:>8}" for name in names)]
    for row in rows:
        cells = "".join("       -" if row[key] is None else f"{100 * row[key]:>7.1f}%" for key in keys)
        lines.append(f"{row['group']:<44}{row['points']:>7}{row['left_out']:>6}{row['constants']:>8}{cells}")
    return "\n".join(lines)


def main() -> int:
    parser = command_line.parser(__doc__)
    parser.add_argument("--cases", type=command_line.folder, required=True, help="folder of case files")
    parser.add_argument("--refit", action="store_true", help="add errors of constants fitted without each cell")
    parser.add_argument("--leave-out", action="append", default=[], choices=get_args(Whole),
                        help="add serving errors where all of a cell, model or GPU is left out of the fit")  # fmt: skip
    arguments = parser.parse_args()
    found = result(arguments.cases, arguments.refit, arguments.leave_out)
    if arguments.json:
        command_line.print_json(found)
        return 0
    print("Errors of times and throughputs, |kvcalc / measured - 1|; cv: left out of the fit; cells: mean over cells;")
    print("cover: share of measurements in the range; consts: constants fitted to such cases")
    print(table(found["groups"]))
    print("\nBy kind of estimate")
    print(table(found["kinds"]))
    for row in found["wholes"]:
        errors = ", ".join(f"{whole} {100 * row[whole]:.1f} %" for whole in arguments.leave_out)
        print(f"left out: {row['group']:<28}{row['points']:>6}  {errors}")
    reasons = defaultdict(list)
    for point in found["points"]:
        if point["reason"]:
            reasons[point["reason"]].append(point["id"])
    for reason, ids in sorted(reasons.items()):
        print(f"not expressed: {reason}: {', '.join(ids[:8])}{' …' if len(ids) > 8 else ''}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
