"""The benchmark of speculation reads cases in their form and answers in its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy_speculation.py"
T5 = {"L": 24, "h": 4096, "heads": 64, "n_kv": 64, "d_h": 64, "inter": 10240, "vocab": 32128, "params": 11.3e9}
COMMON = {"quality": 1, "tp": 1, "pp": 1, "ep": 1, "dp": 1, "n_gpus": 1, "year": 2023, "metric": "speedup", "batch": 1}
# Leviathan et al. 2023, table 4: acceptance, draft length, cost, expected and measured speed-up.
TABLE_4 = [(0.75, 7, 0.02, 3.2, 3.4), (0.8, 7, 0.04, 3.3, 2.8), (0.62, 7, 0.02, 2.3, 2.6), (0.68, 5, 0.04, 2.4, 2.4)]
# InferenceX, SPEED-Bench coding: accepted lengths of one model with EAGLE-3, by draft length.
LENGTHS = {1: 1.83, 2: 2.43, 3: 2.88, 5: 3.46, 6: 3.62, 7: 3.71, 8: 3.77}


def cases() -> dict[str, list[dict[str, Any]]]:
    spec = [
        COMMON
        | {"id": f"t5-{i}", "engine": "T5X", "model": "t5-xxl", "draft": "T5", "gpu": "tpu_v4", "dims": T5}
        | {"weights_dtype": "bf16", "value": measured}
        | {"spec": {"alpha": alpha, "gamma": gamma, "c": cost, "expected": expected}}
        for i, (alpha, gamma, cost, expected, measured) in enumerate(TABLE_4)
    ]
    spec.append(spec[0] | {"id": "no-dims", "dims": None, "spec": {}})
    del spec[-1]["dims"]
    lengths = [
        {"id": f"al-{n}", "model": "m", "metric": "acceptance_length", "value": value, "quality": 1,
         "spec": {"gamma": n, "mode": "on", "drafter": "eagle3"}}
        for n, value in LENGTHS.items()
    ]  # fmt: skip
    alone = {"id": "alone", "model": "n", "value": 2.0, "quality": 1, "spec": {"gamma": 2, "mode": "", "drafter": "x"}}
    return {"spec": spec, "spec_al": [*lengths, alone]}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("cases")
    for name, some in cases().items():
        (folder / f"{name}.json").write_text(json.dumps(some))
    command = [sys.executable, str(SCRIPT), "--cases", str(folder), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_the_papers_column_comes_out(found: Any) -> None:
    points = [one for one in found["points"] if one["group"] == "expected"]
    assert len(points) == len(TABLE_4)
    assert all(abs(one["have"] - one["want"]) < 0.1 for one in points)


def test_left_out_lengths_are_predicted(found: Any) -> None:
    (group,) = [one for one in found["groups"] if one["group"] == "spec_al"]
    assert group["points"] == len(LENGTHS)
    assert group["median_abs_error"] < 0.02


def test_what_cannot_be_answered_says_why(found: Any) -> None:
    reasons = {one["id"]: one["reason"] for one in found["points"] if one["have"] is None}
    assert set(reasons) == {"no-dims", "alone"}
    assert all(reasons.values())


@pytest.mark.parametrize("name", ["spec", "spec_al"])
def test_one_odd_case_stops_no_other(tmp_path: Path, name: str) -> None:
    good = cases()[name]
    odd = [
        {**{k: v for k, v in good[0].items() if k != key}, "id": f"{kind} {key}", **extra}
        for key in good[0]
        if key != "id"
        for kind, extra in (("no", {}), ("null", {key: None}), ("odd", {key: {"odd": 1}}))
    ]
    (tmp_path / f"{name}.json").write_text(json.dumps([*good, *odd]))
    done = subprocess.run([sys.executable, SCRIPT, "--cases", tmp_path, "--json"], capture_output=True, check=True)
    points = {point["id"]: point for point in json.loads(done.stdout)["points"] if point["group"] == name}
    assert len(points) == len(good) + len(odd)
    assert all((point["have"] is None) == bool(point["reason"]) for point in points.values())
    assert points[good[0]["id"]]["have"] is not None
