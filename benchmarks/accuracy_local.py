"""How far kvcalc's times of llama.cpp are from what llama-bench measured.

    python benchmarks/accuracy_local.py --points FILE             # the shipped constants
    python benchmarks/accuracy_local.py --points FILE --refit     # left-out errors too, by device
    python benchmarks/accuracy_local.py --points FILE --json

FILE is a list of results in the form of `reports/llama_bench.json`; configs are looked up in the folder
`model_configs` beside its folder, or in --configs. A row is answered by the model, file type, device, backend, build,
ubatch and attention that it states, as `kvcalc step` and `kvcalc prefill` answer it. Rows that no command line can
express, or whose facts are doubtful, stand among the points with their reason.
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import command_line
import numpy as np
from times.local_cases import seconds_of
from times.local_points import NAMES, LocalPoint, point_of

from kvcalc.errors import KvcalcError

ENGINE = "llama.cpp"
DYNAMIC = "UD-"  # mixes that only their own headers know


@dataclass
class Answer:
    """One row: tokens/s as kvcalc has them and as measured, or why there is no answer."""

    row: dict[str, Any]
    point: LocalPoint | None = None
    reason: str | None = None
    have: float | None = None
    low: float | None = None
    high: float | None = None
    left_out: float | None = None

    @property
    def group(self) -> str:
        return f"{self.row['backend']} {self.row['test']}"

    @property
    def kind(self) -> str:
        return "moe" if self.point is not None and self.point.replica.routed else "dense"

    def inside(self) -> bool:
        return bool((self.low or 0) <= self.row["tokens_per_s"] <= (self.high or 0))


def unexpressed(row: dict[str, Any]) -> str | None:
    """Why a row is not answered; None: it can be."""
    if row["engine"] != ENGINE:
        return f"measured with {row['engine']}"
    if row.get("quality", 1) > 2:
        return "doubtful: quality 3"
    if row["backend"] not in NAMES:
        return f"backend {row['backend']}"
    if not row.get("gpu"):
        return f"device {row.get('gpu_written', 'not stated')} is not listed"
    if str(row["quant"]).startswith(DYNAMIC):
        return f"{row['quant']}: a mix that only the file's header knows"
    return None


def answer(row: dict[str, Any], configs: Path) -> Answer:
    one = Answer(row, reason=unexpressed(row))
    if one.reason is not None:
        return one
    try:
        one.point = point_of(row, configs)
        seconds = seconds_of(one.point)
    except (KvcalcError, KeyError) as error:
        one.reason = str(error) or type(error).__name__
        return one
    tokens = row["tokens_per_s"] * one.point.measured_s
    one.have, one.low, one.high = tokens / seconds.value, tokens / seconds.high, tokens / seconds.low
    return one


def summary(name: str, answers: Sequence[Answer]) -> dict[str, Any]:
    """Errors of one group."""
    good = [one for one in answers if one.have is not None]
    row: dict[str, Any] = {"group": name, "points": len(good), "unanswered": len(answers) - len(good)}
    want = np.array([one.row["tokens_per_s"] for one in good])
    errors = np.abs(np.array([one.have for one in good]) / want - 1)
    without = [abs(one.left_out / one.row["tokens_per_s"] - 1) for one in good if one.left_out is not None]
    return row | {
        "median_abs_error": float(np.median(errors)) if good else None,
        "coverage": float(np.mean([one.inside() for one in good])) if good else None,
        "cv_median_abs_error": float(np.median(without)) if without else None,
    }


def result(rows: Sequence[dict[str, Any]], configs: Path, training: Path | None) -> dict[str, Any]:
    answers = [answer({key: value for key, value in row.items() if value is not None}, configs) for row in rows]
    if training is not None:
        from times.refit_local import left_out_seconds

        good = [one for one in answers if one.point is not None and one.have is not None]
        for one, seconds in zip(good, left_out_seconds([o.point for o in good if o.point], training), strict=True):
            assert one.point is not None
            one.left_out = one.row["tokens_per_s"] * one.point.measured_s / seconds
    groups: dict[str, list[Answer]] = defaultdict(list)
    for one in answers:
        if one.row["engine"] == ENGINE and one.row["backend"] in NAMES:
            groups[one.group].append(one)
            if one.have is not None:
                groups[f"{one.group} {one.kind}"].append(one)
    return {
        "groups": [summary(name, some) for name, some in sorted(groups.items())],
        "points": [
            {
                "id": one.row["id"], "group": one.group, "have": one.have, "low": one.low, "high": one.high,
                "want": one.row["tokens_per_s"], "reason": one.reason,
            }
            for one in answers
        ],
    }  # fmt: skip


def show(found: dict[str, Any]) -> None:
    def percent(value: float | None) -> str:
        return "-" if value is None else f"{100 * value:.1f} %"

    print(f"{'group':<20}{'points':>7}{'unanswered':>12}{'error':>9}{'in range':>10}{'left out':>10}")
    for one in found["groups"]:
        print(
            f"{one['group']:<20}{one['points']:>7}{one['unanswered']:>12}{percent(one['median_abs_error']):>9}"
            f"{percent(one['coverage']):>10}{percent(one['cv_median_abs_error']):>10}"
        )


def main() -> None:
    parser = command_line.parser(__doc__)
    parser.add_argument("--points", type=command_line.file, required=True, help="results of llama-bench")
    parser.add_argument("--configs", type=command_line.folder, help="folder of model configs")
    parser.add_argument("--refit", action="store_true", help="errors of constants fitted without the device, too")
    arguments = parser.parse_args()
    rows = json.loads(arguments.points.read_text(encoding="utf-8"))
    configs = arguments.configs or arguments.points.resolve().parents[1] / "model_configs"
    found = result(rows, configs, arguments.points if arguments.refit else None)
    if arguments.json:
        command_line.print_json(found)
    else:
        show(found)


if __name__ == "__main__":
    main()
