"""The benchmark of simulated requests: its form, on a run that is made up."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_form(tmp_path: Path) -> None:
    requests = [
        {"id": i, "input_tokens": 100, "output_tokens": 20, "arrival_s": i / 5, "first_token_s": i / 5 + 0.05,
         "last_token_s": i / 5 + 0.05 + 19 * 0.01}
        for i in range(20)
    ]  # fmt: skip
    case = {"engine": "vllm", "engine_version": "0.19.0", "model": "llama-3-8b", "gpu": "h100-sxm",
            "flags": {"tensor_parallel_size": 1, "max_num_seqs": 64}, "requests": requests}  # fmt: skip
    path = tmp_path / "made.json"
    path.write_text(json.dumps(case))
    ran = subprocess.run(
        [sys.executable, ROOT / "benchmarks/accuracy_simulation.py", "--requests", path, "--json"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    (run,) = json.loads(ran.stdout)["runs"]
    names = {f"{what}_{of}" for what in ("ttft", "tpot", "e2e") for of in ("mean", "p50", "p90", "p99")}
    assert run["id"] == "made"
    assert set(run["own"]) == set(run["calibrated"]) == names
    assert abs(run["calibrated"]["tpot_mean"]) < 1e-3  # what the factor is fitted to
    assert run["steps"] == {"full_batch": None, "seconds": 0, "prompts": None, "lone_prompts": 0}  # no record of them
    assert run["factor"] > 1  # 10 ms a token is slow for one sequence
