"""The benchmark of reports: a case is answered by its own command line, and judged as its file says."""

import json
from pathlib import Path
from typing import Any

import accuracy_reports as benchmark
import pytest

SIZE = "kvcalc size llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --context 2048"


def write(folder: Path, cases: list[dict[str, Any]]) -> Path:
    path = folder / "reports.json"
    path.write_text(json.dumps(cases))
    return path


def test_checks_pass_and_fail_by_their_own_tolerance(tmp_path: Path) -> None:
    checks = [  # 186 sequences of 2,048 tokens in 50 GB: the lesson's figure
        {"key": "max_batch", "want": 186},
        {"key": "max_batch", "want": 190, "tolerance": 0.03},
        {"key": "max_batch", "want": 190, "tolerance": 0.01},
        {"key": "kv_pool_bytes_per_gpu", "want": 50_000_000_000, "in_range": True},
        {"key": "answered", "want": True},
    ]
    path = write(tmp_path, [{"id": "lesson", "command": SIZE, "judged": True, "checks": checks}])
    found = benchmark.result([path])
    assert [one["passed"] for one in found["points"]] == [True, True, False, True, True]
    assert found["groups"][0]["wrong"] == 1


def test_a_case_without_an_answer_stands_with_its_reason(tmp_path: Path) -> None:
    case = {"id": "none", "group": "server TPOT", "command": "kvcalc size no-such-model --gpu h100-sxm",
            "measured": 10.0, "unit": "tpot_ms"}  # fmt: skip
    found = benchmark.result([write(tmp_path, [case])])
    assert "no-such-model" in found["points"][0]["reason"]
    assert found["groups"][0]["unanswered"] == 1
    assert found["groups"][0]["median_abs_error"] is None


@pytest.mark.parametrize("command, unit, key", [
    ("size llama-3-8b --gpu h100-sxm --isl 1000 --osl 100 --concurrency 4", "tpot_ms", "tpot_s"),
    ("size llama-3-8b --gpu h100-sxm --isl 1000 --osl 100 --concurrency 4", "ttft_ms", "ttft_s"),
])  # fmt: skip
def test_figures_are_servings_in_the_reports_unit(tmp_path: Path, command: str, unit: str, key: str) -> None:
    case = {"id": "one", "group": "server", "command": f"kvcalc {command}", "measured": 1.0, "unit": unit}
    (point,) = benchmark.result([write(tmp_path, [case])])["points"]
    found, _ = benchmark.answer(f"kvcalc {command}", tmp_path)
    assert point["have"] == 1e3 * found["result"]["serving"][key]["value"]
    assert point["low"] < point["have"] < point["high"]


def test_tokens_per_second_of_a_step_and_of_a_prompt(tmp_path: Path) -> None:
    step = "kvcalc step llama-3-8b --gpu h100-sxm --batch 4 --context 1000"
    found, _ = benchmark.answer(step, tmp_path)
    have, low, high = benchmark.figure(found, "tok/s decode")
    assert have == 4 / found["result"]["estimate_s"]["value"]
    assert low < have < high
    prompt, _ = benchmark.answer("kvcalc prefill llama-3-8b --gpu h100-sxm --isl 512 --batch 1", tmp_path)
    assert benchmark.figure(prompt, "tok/s prompt")[0] == 512 / prompt["result"]["estimate_s"]["value"]
