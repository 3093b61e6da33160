"""`kvcalc simulate --concurrency`: clients who ask again when they are answered."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from kvcalc.units import format_seconds
from tests.cli.conftest import Cli
from tests.cli.test_simulate import answer


@pytest.mark.parametrize(
    "model, flags, isl, osl, clients",
    [
        ("llama-3-8b", "--gpu h100-sxm", 1024, 256, 16),
        ("llama-3-8b", "--gpu l40s", 512, 128, 8),
        ("qwen3-30b-a3b", "--gpu h100-sxm", 1024, 512, 32),
    ],
)
def test_a_closed_loop_is_the_steady_state(cli: Cli, model: str, flags: str, isl: int, osl: int, clients: int) -> None:
    """The same flags: lengths are mixed in both."""
    line, count = f"{model} {flags} --isl {isl} --osl {osl} --concurrency {clients}", 40 * clients
    found = answer(cli, f"simulate {line} --requests {count}")
    steady = answer(cli, f"size {line} --num-prompts {count}")["serving"]
    assert found["tpot_s"]["mean"]["value"] == pytest.approx(steady["tpot_s"]["value"], rel=0.02)
    assert found["output_tokens_per_s"]["value"] == pytest.approx(steady["output_tokens_per_s"]["value"], rel=0.03)


def test_clients_differ_in_length_unless_said(cli: Cli, tmp_path: Path) -> None:
    """Mixed from half of the mean to one and a half times, as `size` takes them; equal ones march in step and wait."""
    table, loop = tmp_path / "r.csv", "simulate llama-3-8b --gpu h100-sxm --isl 2000 --osl 100 --concurrency 16"
    ran = cli(f"{loop} --requests 400 --requests-csv {table} --json")
    prompts = [int(row["input_tokens"]) for row in csv.DictReader(table.open())]
    assert (min(prompts) >= 1000, max(prompts) <= 3000) == (True, True)
    assert max(prompts) > 2800
    report = json.loads(ran.out)
    assumed = {one["name"]: one["value"] for one in report["assumptions"]}
    assert (assumed["--isl"], assumed["--osl"]) == ("1000-3000", "50-150")
    assert "--concurrency" not in assumed
    equal = answer(cli, f"{loop} --requests 400 --equal-lengths --requests-csv {table}")
    assert {row["output_tokens"] for row in csv.DictReader(table.open())} == {"100"}
    assert equal["ttft_s"]["p95"]["value"] > 1.5 * report["result"]["ttft_s"]["p95"]["value"]
    # None is longer than the model takes.
    near = answer(cli, f"{loop.replace('2000', '7000')} --requests 50 --requests-csv {table}")
    assert near["refused"] == 0
    assert max(int(row["input_tokens"]) + int(row["output_tokens"]) for row in csv.DictReader(table.open())) <= 8192
    assert "contradicts" in cli(f"{loop} --equal-lengths --isl-sigma 0.5").err


def test_percentiles_that_the_opening_makes_are_said(cli: Cli, tmp_path: Path) -> None:
    """Of ten waves the first is the slowest tenth: p95 is of it alone. Of 31 it is few."""
    table, loop = tmp_path / "r.csv", "simulate llama-3-8b --gpu h100-sxm --isl 2000 --osl 50 --concurrency 32"
    report = json.loads(cli(f"{loop} --requests 320 --requests-csv {table} --json").out)
    with table.open() as file:
        later = [float(row["ttft_s"]) for row in csv.DictReader(file)][32:]
    (said,) = (one for one in report["warnings"] if "p95" in one)
    assert format_seconds(float(np.percentile(later, 95))) in said
    assert float(np.percentile(later, 95)) < report["result"]["ttft_s"]["p95"]["value"] / 1.25
    longer = json.loads(cli(f"{loop} --json").out)  # 1,000: 31 waves
    assert not [one for one in longer.get("warnings", ()) if "p95" in one]
