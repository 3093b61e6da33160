"""Capacity against start-up logs, sizing questions and measured budgets.

python benchmarks/accuracy_capacity.py --cases FILE... [--configs DIR...] [--json]
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import command_line
from budgets import budget_case, budget_summary
from capacity_checks import capacity_checks
from case_models import card_model, config_model
from log_lines import log_lines, log_summary
from question_checks import question_checks

from kvcalc.engines import loaded_weight_bytes
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import ModelSpec

Case = dict[str, Any]
DEFAULT_CONFIGS = Path(__file__).parents[2] / "shared" / "model_configs"
LIMITS = {"within_rounding": 0.85, "within_0.3_percent": 0.95, "worst": 0.012}


def main() -> int:
    parser = command_line.parser(__doc__)
    parser.add_argument("--cases", type=command_line.file, nargs="+", required=True, help="files of cases")
    parser.add_argument("--configs", type=Path, nargs="+", default=[DEFAULT_CONFIGS], help="folders of model folders")
    flags = parser.parse_args()
    cases = [case for file in flags.cases for case in read(file)]
    answers = [answer(case, flags.configs) for case in cases]
    result: dict[str, Any] = {"cases": answers, "summary": summary(answers)}
    logs = [log_lines(case) for case in cases if "raw_lines" in case]
    if logs:
        result["summary"]["raw_lines"] = log_summary(logs)
    if flags.json:
        command_line.print_json(result)
    else:
        print_summary(result)
    return 0


def read(file: Path) -> list[Case]:
    """The cases of a file; what is null in a case is not said there."""
    found = json.loads(file.read_text(encoding="utf-8"))
    cases = found["cases"] if isinstance(found, dict) else found
    return [{name: value for name, value in case.items() if value is not None} for case in cases]


def answer(case: Case, folders: Sequence[Path]) -> Case:
    """One case's checks, or the reason why it has none."""
    kind = "question" if "category" in case else "capacity" if "kind" in case else "budget"
    found: Case = {
        "id": case.get("id"),
        "engine": case.get("engine"),
        "independent": case.get("independent_test", True),
        "kind": kind,
        "checks": [],
        "reason": None,
    }
    try:
        if kind == "budget":
            found |= budget_case(case, lambda one: _budget_model(one, folders), loaded_weight_bytes)
        else:
            found["checks"] = (question_checks if kind == "question" else capacity_checks)(case, folders)
    except KvcalcError as error:
        found["reason"] = error.message
    except KeyError as error:
        found["reason"] = f"the case has no {error.args[0]}"
    except (AttributeError, TypeError, ValueError) as error:  # one odd case is listed, and the others are answered
        found["reason"] = f"a value of another kind than in other cases: {str(error).splitlines()[0]}"
    return found


def _budget_model(case: Case, folders: Sequence[Path]) -> ModelSpec | None:
    """A record with dimensions of its own is answered from them, or from its config."""
    return config_model(case, folders) or (None if "model_dims" in case else card_model(case.get("model", "")))


def summary(answers: Sequence[Case]) -> dict[str, Any]:
    """Log cases together and by independence, questions by check, budgets by version."""
    logs = [one for one in answers if one["kind"] == "capacity"]
    questions = [one for one in answers if one["kind"] == "question"]
    found: dict[str, Any] = {}
    if logs:
        found["capacity"] = _agreement(logs)
        found["capacity, independent"] = _agreement(one for one in logs if one["independent"])
        found["capacity, inferred"] = _agreement(one for one in logs if not one["independent"])
    if questions:
        found["questions"] = {
            "cases": len(questions),
            "passed": sum(bool(one["checks"]) and all(check["passed"] for check in one["checks"]) for one in questions),
            "failed": sum(not all(check["passed"] for check in one["checks"]) for one in questions),
            "left_out": sum(not one["checks"] for one in questions),
        }
        checks = [check for one in questions for check in one["checks"]]
        for name in dict.fromkeys(check["name"] for check in checks):
            mine = [check for check in checks if check["name"] == name]
            found[name] = {
                "checks": len(mine),
                "passed": sum(check["passed"] for check in mine),
                "worst": max(abs(check["error"]) for check in mine),
            }
    budgets = [one for one in answers if one["kind"] == "budget"]
    return found | budget_summary(budgets)


def _agreement(answers: Iterable[Case]) -> dict[str, Any]:
    """Shares of cases; a case is as good as its worst check."""
    every = list(answers)
    checked = [one for one in every if one["checks"]]
    worst = [max(abs(check["error"]) for check in one["checks"]) for one in checked]
    if not checked:
        return {"cases": 0, "left_out": len(every)}
    passed = [all(check["passed"] for check in one["checks"]) for one in checked]
    return {
        "cases": len(checked),
        "left_out": len(every) - len(checked),
        "within_rounding": round(sum(passed) / len(checked), 4),
        "within_0.3_percent": round(
            sum(ok or error <= 0.003 for ok, error in zip(passed, worst, strict=True)) / len(checked), 4
        ),
        "worst": max(worst),
    }


def print_summary(result: dict[str, Any]) -> None:
    """What is not within its tolerance, what was left out and why, then the figures."""
    for one in result["cases"]:
        if one["reason"]:
            print(f"left out  {one['id']}: {one['reason']}")
        for check in one["checks"]:
            if not check["passed"]:
                print(f"differs   {one['id']}: {check['name']} {check['have']}, logged {check['want']}")
    for name, figures in result["summary"].items():
        print(f"{name}: {json.dumps(figures)}")


if __name__ == "__main__":
    sys.exit(main())
