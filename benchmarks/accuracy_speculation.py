"""How far kvcalc's tokens per pass and speed-ups are from measured ones.

    python benchmarks/accuracy_speculation.py --cases DIR [--json]

Three groups. `spec`: speed-ups, each from the target's dimensions, the draft and the stated acceptance. `expected`:
what the paper's own formula gives for its acceptance, draft length and cost. `spec_al`: accepted lengths, each from the
other draft lengths of its model, mode and drafter, acceptance and decay fitted without it.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command_line
import numpy as np
from speculation_points import Plan, plan_of, sibling_acceptance

from kvcalc.answers.speculate.acceptance import fit
from kvcalc.answers.speculate.rounds import speculation_constants
from kvcalc.errors import KvcalcError
from kvcalc.formulas.speculative import speculative_speedup, tokens_per_pass

Case = dict[str, Any]
FEWEST = 2  # other draft lengths that rate and decay are fitted to
PRINTED = 0.1  # the paper prints one decimal, from rates of two


@dataclass
class Answer:
    """One case: what kvcalc says, what was measured (or printed), or why there is no answer."""

    id: str | None
    group: str
    want: float | None = None
    have: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


def read(folder: Path, name: str) -> list[Case]:
    path = folder / f"{name}.json"
    if not path.is_file():
        return []
    return [_said(case) for case in json.loads(path.read_text(encoding="utf-8")) if case.get("quality") != 3]


def _said(value: Any) -> Any:
    """Without its nulls: what is null is not said."""
    return {k: _said(v) for k, v in value.items() if v is not None} if isinstance(value, dict) else value


@contextmanager
def listed(one: Answer) -> Iterator[None]:
    """An odd case is left out with its reason; the others are answered."""
    try:
        yield
    except KvcalcError as error:
        one.reason = error.message
    except KeyError as error:
        one.reason = f"the case has no {error.args[0]}"
    except (AttributeError, TypeError, ValueError) as error:
        one.reason = f"a value of another kind than in other cases: {str(error).splitlines()[0]}"


def speedups(cases: Sequence[Case]) -> list[Answer]:
    """Unstated acceptance is taken from the other cases of the same target, draft and engine, where there are some."""
    answers, plans = [], []
    for case in cases:
        one = Answer(case.get("id"), "spec")
        answers.append(one)
        with listed(one):
            one.want = float(case["value"])
            if case["metric"] != "speedup":
                raise KvcalcError(f"a {case['metric']} is no speed-up", hint="")
            plans.append((one, plan_of(case)))
    around = speculation_constants()["range"]["speedup"]
    for one, plan in plans:
        with listed(one):
            have = plan.speedup(None if plan.stated else sibling_acceptance(plan, _siblings(plan, plans)))
            one.have, one.low, one.high = have, have * around["low"], have * around["high"]
    return answers


def _siblings(plan: Plan, plans: Sequence[tuple[Answer, Plan]]) -> list[Plan]:
    def key(case: Any) -> tuple[Any, ...]:
        return case["model"], case.get("draft"), case["engine"]

    others = [other for _, other in plans if other is not plan and not other.stated]
    return [other for other in others if key(other.case) == key(plan.case)]


def expected(cases: Sequence[Case]) -> list[Answer]:
    found = []
    for case in cases:
        spec = case.get("spec") or {}
        if {"alpha", "gamma", "c", "expected"} <= spec.keys():
            one = Answer(case.get("id"), "expected")
            found.append(one)
            with listed(one):
                one.want = float(spec["expected"])
                have = speculative_speedup(tokens_per_pass(spec["alpha"], spec["gamma"]), spec["gamma"], spec["c"])
                one.have, one.low, one.high = have, have - PRINTED, have + PRINTED
    return found


def lengths(cases: Sequence[Case]) -> list[Answer]:
    series: dict[tuple[Any, ...], list[tuple[Answer, int]]] = defaultdict(list)
    found = []
    for case in cases:
        one = Answer(case.get("id"), "spec_al")
        found.append(one)
        with listed(one):
            one.want = float(case["value"])
            spec = case["spec"]
            series[case["model"], spec.get("mode"), spec.get("drafter")].append((one, int(spec["gamma"])))
    around = speculation_constants()["range"]["accepted_length"]
    for some in series.values():
        for one, gamma in some:
            others = {other: length.want or 0.0 for length, other in some if length is not one}
            if len(others) < FEWEST:
                one.reason = f"{len(others)} other draft lengths of its series; {FEWEST} are needed"
                continue
            rate, decay = fit(others)
            have = tokens_per_pass(rate, gamma, decay)
            one.have, one.low, one.high = have, have * around["low"], have * around["high"]
    return found


def summary(name: str, answers: Sequence[Answer]) -> dict[str, Any]:
    good = [one for one in answers if one.have is not None]
    row: dict[str, Any] = {"group": name, "points": len(good), "left_out": len(answers) - len(good)}
    have, want = np.array([(one.have, one.want) for one in good], dtype=float).reshape(-1, 2).T
    inside = [float(one.low or 0) <= float(one.want or 0) <= float(one.high or 0) for one in good]
    error = np.abs(have / want - 1)
    nothing = not good
    return row | {
        "median_abs_error": None if nothing else float(np.median(error)),
        "mean_abs_error": None if nothing else float(np.mean(error)),
        "p90_abs_error": None if nothing else float(np.quantile(error, 0.9)),
        "bias": None if nothing else float(np.median(have / want) - 1),
        "coverage": None if nothing else float(np.mean(inside)),
        "max_abs_difference": None if nothing else float(np.max(np.abs(have - want))),
        "cv_median_abs_error": float(np.median(error)) if good and name == "spec_al" else None,
        "cv_mean_over_cells": None,
    }


def result(folder: Path) -> dict[str, Any]:
    spec = read(folder, "spec")
    groups = {"spec": speedups(spec), "expected": expected(spec), "spec_al": lengths(read(folder, "spec_al"))}
    points = [
        {"id": one.id, "group": one.group, "have": one.have, "low": one.low, "high": one.high, "want": one.want,
         "reason": one.reason}
        for answers in groups.values()
        for one in answers
    ]  # fmt: skip
    return {"groups": [summary(name, answers) for name, answers in groups.items() if answers], "points": points}


def table(found: dict[str, Any]) -> str:
    keys = ("median_abs_error", "mean_abs_error", "p90_abs_error", "bias", "coverage")
    lines = [f"{'':<12}{'points':>8}{'none':>6}{'median':>9}{'mean':>9}{'p90':>9}{'bias':>9}{'cover':>9}{'largest':>9}"]
    for row in found["groups"]:
        cells = "".join("        -" if row[key] is None else f"{row[key]:>9.1%}" for key in keys)
        largest = "        -" if row["max_abs_difference"] is None else f"{row['max_abs_difference']:>9.2f}"
        lines.append(f"{row['group']:<12}{row['points']:>8}{row['left_out']:>6}{cells}{largest}")
    return "\n".join(lines)


def main() -> int:
    parser = command_line.parser(__doc__)
    parser.add_argument("--cases", type=command_line.folder, required=True, help="folder of case files")
    arguments = parser.parse_args()
    found = result(arguments.cases)
    if arguments.json:
        command_line.print_json(found)
        return 0
    print("|kvcalc / measured - 1| of speed-ups and tokens per pass; largest: the largest difference")
    print(table(found))
    for point in found["points"]:
        if point["reason"]:
            print(f"not expressed: {point['id']}: {point['reason']}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
