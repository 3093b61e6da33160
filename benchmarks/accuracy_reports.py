"""How kvcalc does on what strangers measured: each case's own command line, run in the folder of its file.

    python benchmarks/accuracy_reports.py --reports FILE...
    python benchmarks/accuracy_reports.py --reports FILE... --json

A case has a `command` and either what was `measured` in a `unit` (a number, or one point a key) or `checks` of keys of
the result. Doubtful facts stand among the points and not in the medians; unjudged ones are named.
"""

import contextlib
import io
import json
import os
import shlex
import statistics
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import command_line

from kvcalc.cli.app import run
from kvcalc.errors import EXIT_OK

WIDEST_SHARE, WIDEST_BYTES = 0.15, 3.5 * 2**30  # of the pool: a range that is wider says too little


@dataclass
class Point:
    """One figure of one report; `reason` says why kvcalc has none."""

    id: str
    group: str
    have: float | None
    low: float | None
    high: float | None
    want: Any
    reason: str | None = None
    counts: bool = True  # towards the medians
    passed: bool | None = None  # of checks
    judged: bool | None = None

    @property
    def error(self) -> float | None:
        if self.have is None or not isinstance(self.want, int | float) or not self.want:
            return None
        return abs(self.have / self.want - 1)

    @property
    def held(self) -> bool | None:
        """Whether the measured value is in the range."""
        if self.low is None or self.high is None or not isinstance(self.want, int | float):
            return None
        return self.low <= self.want <= self.high


def answer(command: str, folder: Path) -> tuple[dict[str, Any] | None, str]:
    """The JSON of a command line and what it printed beside; None where it gave no answer."""
    words = shlex.split(command)
    out, err, before = io.StringIO(), io.StringIO(), Path.cwd()
    os.chdir(folder)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([*words[1:], "--json"])
    finally:
        os.chdir(before)
    said = " ".join(err.getvalue().split())
    if code != EXIT_OK and not out.getvalue():
        return None, said
    return json.loads(out.getvalue()), said


def figure(found: dict[str, Any], unit: str) -> tuple[float, float | None, float | None] | None:
    """(have, low, high) of a result in the unit of a report; None where the result has no such figure."""
    result, inputs = found["result"], found["inputs"]
    serving = result.get("serving") or {}
    if unit in ("tpot_ms", "ttft_ms"):
        return _scaled(serving.get(unit.replace("_ms", "_s")), 1e3)
    if unit == "out_tps":
        return _scaled(serving.get("output_tokens_per_s"), 1)
    if unit == "speed-up":
        return _scaled(result.get("speedup"), 1)
    if unit == "tok/s prompt":
        return _inverse(result.get("estimate_s"), inputs["input_len"] - (inputs.get("prefix_hit") or 0))
    if "operators" in result:  # of `step`
        return _inverse(result.get("estimate_s"), result["batch"] * (inputs.get("data_parallel_size") or 1))
    return _scaled((result.get("estimate") or {}).get("output_tokens_per_s"), 1)


def _scaled(value: Any, factor: float) -> tuple[float, float | None, float | None] | None:
    if value is None:
        return None
    if isinstance(value, dict):
        return factor * value["value"], factor * value["low"], factor * value["high"]
    return factor * value, None, None


def _inverse(value: Any, count: float) -> tuple[float, float | None, float | None] | None:
    return None if value is None else (count / value["value"], count / value["high"], count / value["low"])


def speed_points(case: dict[str, Any], folder: Path) -> Iterator[Point]:
    """The points of a case that was timed."""
    found, said = answer(case["command"], folder)
    measured = case["measured"]
    wanted = measured if isinstance(measured, dict) else {case["unit"]: measured}
    for unit, want in wanted.items():
        name = case["id"] if len(wanted) == 1 else f"{case['id']}:{unit}"
        counts = want is not None and not case.get("doubtful_facts")
        have = None if found is None else (None, None, None) if want is None else figure(found, unit)
        if have is None:
            yield Point(name, case["group"], None, None, None, want, said or "the result has no such figure", counts)
        else:
            value, low, high = have
            yield Point(name, case["group"], value, low, high, want, None, counts)


def memory_points(case: dict[str, Any], folder: Path) -> Iterator[Point]:
    """One point a check."""
    found, said = answer(case["command"], folder)
    for check in case["checks"]:
        name = f"{case['id']}:{check['key']}"
        judged = bool(case["judged"])
        reason = None if found is not None else said
        if not judged:
            reason = f"not judged: {case.get('why_not', 'the source is too thin')}"
        have, low, high = (None, None, None) if found is None else _checked_figure(found["result"], check["key"])
        passed = check["key"] == "answered" and found is not None
        if check["key"] != "answered" and found is not None:
            passed = _passes(check, have, low, high)
        yield Point(name, "memory", have, low, high, check["want"], reason, judged, passed, judged)


def _checked_figure(result: dict[str, Any], key: str) -> tuple[Any, float | None, float | None]:
    """A key of the result, or the `predicted` of a row of `diagnose`; with the ends of the pool in its proportion."""
    if key == "answered":
        return None, None, None
    if key.startswith("agreement."):
        rows = {row["name"]: row for row in result.get("agreement", ())}
        return rows.get(key.removeprefix("agreement."), {}).get("predicted"), None, None
    have = result.get(key)
    pool = result.get("kv_pool_bytes_per_gpu")
    ends = result.get("kv_pool_low_bytes_per_gpu"), result.get("kv_pool_high_bytes_per_gpu")
    if have is None or isinstance(have, bool | str) or not pool or None in ends:
        return have, None, None
    low, high = (have * end / pool for end in ends)
    return have, low, high


def _passes(check: dict[str, Any], have: Any, low: float | None, high: float | None) -> bool:
    want = check["want"]
    if have is None:
        return bool(check.get("or_null")) or want is None
    if check.get("in_range"):
        if low is None or high is None:
            return False
        narrow = high - low <= max(WIDEST_SHARE * have, WIDEST_BYTES * (have / high if high else 1))
        return bool(low <= want <= high and narrow)
    if "tolerance" in check:
        return bool(abs(have - want) <= check["tolerance"] * abs(want))
    return bool(have == want)


def points(path: Path) -> Iterator[Point]:
    for case in json.loads(path.read_text(encoding="utf-8")):
        if "command" not in case:
            why = case.get("why_not", "the case has no command line")
            yield Point(case["id"], case.get("group", "memory"), None, None, None, None, f"not judged: {why}", False)
            continue
        yield from (memory_points if "checks" in case else speed_points)(case, path.parent)


def group(name: str, some: list[Point]) -> dict[str, Any]:
    counted = [one for one in some if one.counts]
    errors = [one.error for one in counted if one.error is not None]
    held = [one.held for one in counted if one.held is not None]
    row: dict[str, Any] = {
        "group": name,
        "points": len(counted),
        "unanswered": sum(one.reason is not None for one in some),
        "median_abs_error": statistics.median(errors) if errors else None,
        "coverage": sum(held) / len(held) if held else None,
    }
    judged = [one for one in some if one.judged]
    if judged:
        row |= {"judged": len(judged), "wrong": sum(not one.passed for one in judged)}
    return row


def result(paths: list[Path]) -> dict[str, Any]:
    found = [one for path in paths for one in points(path)]
    by_group = defaultdict(list)
    for one in found:
        by_group[one.group].append(one)
    rows = [group(name, some) for name, some in sorted(by_group.items())]
    return {"groups": rows, "points": [asdict(one) for one in found]}


def main() -> int:
    parser = command_line.parser(__doc__)
    parser.add_argument("--reports", type=command_line.file, nargs="+", required=True, help="files of reports")
    arguments = parser.parse_args()
    found = result(arguments.reports)
    if arguments.json:
        command_line.print_json(found)
        return 0
    for row in found["groups"]:
        error = "-" if row["median_abs_error"] is None else f"{row['median_abs_error']:.1%}"
        held = "-" if row["coverage"] is None else f"{row['coverage']:.0%}"
        judged = f", {row['wrong']} of {row['judged']} judged checks wrong" if "judged" in row else ""
        print(f"{row['group']:<18}{row['points']:>5} points, {row['unanswered']} unanswered, median error {error}, "
              f"in range {held}{judged}")  # fmt: skip
    for one in found["points"]:
        if one["reason"] or one["passed"] is False:
            print(f"{one['id']}: {one['reason'] or 'have {have}, want {want}'.format(**one)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
