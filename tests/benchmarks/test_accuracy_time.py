"""The benchmark of times reads cases in their form, whatever the file is called, and answers in its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy_time.py"
LLAMA_2_7B = {
    "L": 32,
    "h": 4096,
    "heads": 32,
    "n_kv": 32,
    "d_h": 128,
    "inter": 11008,
    "vocab": 32000,
    "params": 6.738e9,
}
# gpt-fast's README (6ecad9b): tokens/s of one sequence, about 200 new tokens, A100 80 GB.
GPT_FAST = {"group": "gptfast", "metric": "decode_tokens_per_s", "engine": "gpt-fast", "model": "a", "gpu": "a100_sxm",
            "dims": LLAMA_2_7B, "batch": 1, "input_len": 5, "output_len": 200, "weights_dtype": "bf16"}  # fmt: skip
# aiconfigurator (095f58a), H100 SXM: a GEMM and the decode attention of vLLM 0.24.0, an all-reduce of NCCL 2.27.3.
KERNEL = {"metric": "kernel_us", "engine": "vLLM", "gpu": "h100_sxm"}
GEMM = KERNEL | {"group": "k_gemm", "weights_dtype": "bf16", "value": 14.7671,
                 "op": {"m": 64, "n": 4096, "k": 4096, "kernel": "torch.nn.functional.linear"}}  # fmt: skip
ATTENTION = KERNEL | {"group": "k_attn_decode", "kv_dtype": "bf16", "batch": 256, "context": 1024, "value": 364.384,
                      "op": {"heads": 32, "n_kv": 8, "d_h": 128}}  # fmt: skip
REDUCE: dict[str, Any] = KERNEL | {"group": "k_allreduce", "engine": "NCCL", "n_gpus": 8, "value": 19.01,
                   "op": {"impl": "NCCL", "dtype": "half", "message_size": 65536}}  # fmt: skip
CASES = [
    GPT_FAST | {"id": "one-gpu", "value": 104.9},
    GPT_FAST | {"id": "two-gpus", "value": 168.84, "tp": 2, "n_gpus": 2, "kv_dtype": None, "ep": None, "more": [1]},
    GPT_FAST | {"id": "suspect", "value": 1.0, "quality": 3},
    GPT_FAST | {"id": "no-batch", "value": 100.0, "batch": None},
    GPT_FAST | {"id": "longer", "value": 100.0, "metric": "tpot_ms"},
    GPT_FAST | {"id": "accepted", "value": 2.0, "group": "spec_al"},
    GEMM | {"id": "gemm"},
    GEMM | {"id": "another-type", "weights_dtype": "ternary"},
    ATTENTION | {"id": "attention"},
    REDUCE | {"id": "reduce"},
    REDUCE | {"id": "no-gpus", "n_gpus": None},
    REDUCE | {"id": "another-library", "op": REDUCE["op"] | {"impl": "gloo"}},
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("cases")
    (folder / "mixed.json").write_text(json.dumps(CASES))
    command = [sys.executable, str(SCRIPT), "--cases", str(folder), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_a_case_is_of_the_group_that_it_names(found: Any) -> None:
    names = {row["group"]: row["points"] for row in found["groups"]}
    assert names == {"gptfast:decode_tokens_per_s": 2, "gptfast:tpot_ms": 1, "k_gemm": 1, "k_attn_decode": 1,
                     "k_allreduce": 1}  # fmt: skip
    assert {"suspect", "accepted"}.isdisjoint(one["id"] for one in found["points"])


def test_answers_are_near_what_was_measured_and_in_its_unit(found: Any) -> None:
    for one in found["points"]:
        if one["id"] in ("one-gpu", "two-gpus", "gemm", "attention", "reduce"):
            assert one["low"] < one["have"] < one["high"]
            assert one["have"] == pytest.approx(one["want"], rel=0.15)


def test_what_cannot_be_expressed_says_why_and_takes_nothing_along(found: Any) -> None:
    reasons = {one["id"]: one["reason"] for one in found["points"] if one["have"] is None}
    assert set(reasons) == {"no-batch", "another-type", "no-gpus", "another-library"}
    assert all(reasons.values())


def test_a_row_counts_its_constants_and_errors(found: Any) -> None:
    for row in found["groups"] + found["kinds"]:
        assert 0 <= row["median_abs_error"] <= row["p90_abs_error"]
        assert 0 <= row["coverage"] <= 1
        assert row["cv_median_abs_error"] is row["cv_mean_over_cells"] is row["cv_coverage"] is None
    constants = {row["group"]: row["constants"] for row in found["groups"]}
    assert constants["k_gemm"] == 4  # latency, share of the bandwidth, share of the peak, walk
    assert constants["k_allreduce"] == 3
