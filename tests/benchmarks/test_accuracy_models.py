"""The benchmark of models reads a folder of configs and facts, and answers for every folder."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.catalog.real_models import config_of

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "accuracy_models.py"
LLAMA = 8_030_261_248  # parameters that the Hub shows of meta-llama/Llama-3.1-8B
CONFIGS = {
    "meta__Llama-3.1-8B": config_of("Meta-Llama-3.1-8B"),
    "someone__A-copy": config_of("Meta-Llama-3.1-8B"),
    "someone__Unknown": {"model_type": "pixtral"},
}
COUNTS = {"meta__Llama-3.1-8B": LLAMA, "someone__A-copy": LLAMA + 1, "someone__Unknown": 7, "someone__Without": 8}
CACHE = {"measured_bytes_per_token": 131072.0, "measured_fixed_bytes": 0.0, "kinds": {"full": 32}}
PUBLISHED = [
    {"model": "meta/Llama-3.1-8B (bf16)", "kind": "safetensors_bytes", "value": 2 * LLAMA},
    {"model": "Llama-3.1-8B", "kind": "total_params", "value": LLAMA},
    {"model": "nobody/Knows", "kind": "total_params", "value": 1},
]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("models")
    configs, facts = folder / "configs", folder / "facts"
    (configs / "someone__Without").mkdir(parents=True)
    facts.mkdir()
    for name, config in CONFIGS.items():
        (configs / name).mkdir()
        (configs / name / "config.json").write_text(json.dumps(config))
    counts = {name: {"total_params": count} for name, count in COUNTS.items()}
    (facts / "param_counts.json").write_text(json.dumps(counts))
    (facts / "kv_measured_transformers.json").write_text(json.dumps({"meta__Llama-3.1-8B": CACHE}))
    (facts / "known_facts.json").write_text(json.dumps(PUBLISHED))
    command = [sys.executable, str(SCRIPT), "--configs", str(configs), "--facts", str(facts), "--json"]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_every_folder_has_its_status(found: Any) -> None:
    assert {row["name"]: row["status"] for row in found["models"]} == {
        "meta__Llama-3.1-8B": "exact",
        "someone__A-copy": "wrong",
        "someone__Unknown": "refused",
        "someone__Without": "refused",
    }


def test_what_is_refused_says_why_and_counts(found: Any) -> None:
    refused = [row for row in found["models"] if row["status"] == "refused"]
    assert all(row["reason"] and row["parameters"]["have"] is None for row in refused)
    assert found["summary"]["parameters"] == {"exact": 1, "counted": 4}
    assert found["summary"]["kv_bytes_per_token"] == {"exact": 1, "measured": 1}


def test_published_sizes_are_found_by_name(found: Any) -> None:
    assert [row["have"] for row in found["published"]] == [2 * LLAMA, LLAMA, None]
