"""The benchmark of pasted commands: it compares, and it notices what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

BENCHMARK = Path(__file__).parents[2] / "benchmarks" / "accuracy_serve.py"


def test_right_and_wrong_readings_are_told_apart(tmp_path: Path) -> None:
    expect = {
        "model": "a/b",
        "tensor_parallel": 2,
        "gpus": 2,
        "memory_fraction": 0.8,
        "memory_fraction_of": "whole card",
    }
    command = "vllm serve a/b -tp 2 --gpu-memory-utilization 0.8"
    cases = [
        {"id": "right", "command": command, "expect": expect},
        {"id": "wrong", "command": command, "expect": expect | {"tensor_parallel": 4}},
        {"id": "variable", "command": "vllm serve a/b -tp $TP", "expect": {"unresolved": ["$TP"]}},
        {"id": "file", "command": "trtllm-serve a/b --config x.yml", "files": {"x.yml": "max_seq_len: 4096"},
         "expect": {"max_model_len": 4096}},
    ]  # fmt: skip
    (tmp_path / "commands.json").write_text(json.dumps(cases))
    words = [sys.executable, str(BENCHMARK), "--commands", str(tmp_path / "commands.json"), "--json"]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    rows = {row["id"]: row["checks"] for row in json.loads(ran.stdout)["cases"]}
    assert [one["passed"] for one in rows["right"]] == [True] * 5
    assert [one["name"] for one in rows["wrong"] if not one["passed"]] == ["tensor_parallel"]
    assert rows["variable"][0]["passed"]
    assert rows["file"][0]["passed"]
