"""The benchmark of capacity answers cases from their sentence of dimensions, and survives odd ones."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy_capacity.py"
# Llama-3.1-8B on an H100, vLLM 0.19 at 0.95: a public start-up log.
LOG = {
    "id": "log",
    "kind": "capacity",
    "engine": "vllm",
    "engine_version": "0.19.0",
    "model": "Llama-3.1-8B",
    "model_dims_known": "full L=32 n_kv=8 head_dim=128; heads=32",
    "tp": 1,
    "kv_cache_dtype": "bf16",
    "max_model_len": 8192,
    "available_kv_gib": 58.11,
    "kv_tokens": 476032,
    "max_concurrency": 58.11,
    "raw_lines": [
        "Available KV cache memory: 58.11 GiB",
        "GPU KV cache size: 476,032 tokens",
        "Maximum concurrency for 8,192 tokens per request: 58.11x",
    ],
}
BUDGET = {
    "id": "budget",
    "engine": "vllm",
    "engine_version": "0.19.0",
    "model": "Llama-3.1-8B",
    "gpu": "H100 80GB",
    "gpu_total_gib": 79.19,
    "util": 0.95,
    "tp": 1,
    "weights_gib": 14.99,
    "kv_gib": 58.11,
    "model_dims": {"hidden": 4096, "vocab": 128256, "layers": 32, "intermediate": 14336},
}


def answers(folder: Path, cases: Any) -> dict[str, Any]:
    (folder / "cases.json").write_text(json.dumps(cases))
    line: list[str | Path] = [sys.executable, SCRIPT, "--cases", folder / "cases.json", "--configs", folder, "--json"]
    done = subprocess.run(line, capture_output=True, text=True, check=True, timeout=120)
    found = json.loads(done.stdout)
    assert set(found) == {"cases", "summary"}
    return {one["id"]: one for one in found["cases"]}


def test_a_log_and_a_budget(tmp_path: Path) -> None:
    found = answers(tmp_path, [LOG, BUDGET | {"unknown": {"key": [1]}}])
    for case, names in {"log": {"kv_tokens", "max_concurrency"}, "budget": {"pool_gib"}}.items():
        checks = {check["name"]: check for check in found[case]["checks"]}
        assert names <= checks.keys()
        assert all(check["passed"] for check in checks.values())


@pytest.mark.parametrize("base", [LOG, BUDGET])
def test_a_case_without_a_key_or_with_a_null_is_no_accident(tmp_path: Path, base: dict[str, Any]) -> None:
    lacking = [{k: v for k, v in base.items() if k != key} | {"id": f"no {key}"} for key in base if key != "kind"]
    nulls = [base | {key: None, "id": f"null {key}"} for key in base if key not in ("id", "kind")]
    odd = [base | {key: {"odd": 1}, "id": f"odd {key}"} for key in base if key not in ("id", "kind")]
    found = answers(tmp_path, {"cases": [*lacking, *nulls, *odd, base]})
    assert found[base["id"]]["checks"]
    for name, one in found.items():
        assert one["checks"] or one["reason"] or "kv_" in name
