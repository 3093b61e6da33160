"""`kvcalc simulate` and `prefill` on the lessons' own figures, as a reader would ask for them."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli
from tests.cli.test_simulate import answer, pool

STEPS = "simulate llama-3-8b --gpu h100-sxm --engine ideal --step-time 1s"
CHUNKS = "prefill llama-3-8b --gpu h100-sxm --engine ideal --batch 64 --context 1024"


@pytest.mark.parametrize(
    "scheduler, steps, used, mean", [("static", 737, 0.595, 364.865), ("continuous", 454, 0.966, 219.47)]
)
def test_steps_from_a_file(cli: Cli, tmp_path: Path, scheduler: str, steps: int, used: float, mean: float) -> None:
    """A column of numbers of steps, the first of which is the prompt's; eight slots."""
    path = tmp_path / "steps.csv"
    path.write_text("\n".join(map(str, ("output_tokens", *np.random.default_rng(0).integers(1, 33, 200)))))
    ran = cli(f"{STEPS} --trace {path} --max-num-seqs 8 --scheduler {scheduler} --json")
    found = json.loads(ran.out)
    assert found["result"]["steps"] == steps
    assert found["result"]["slot_use"] == pytest.approx(used, abs=5e-4)
    assert found["result"]["e2e_s"]["mean"] == pytest.approx(mean, abs=5e-4)
    assert "--arrivals" in {one["name"] for one in found["assumptions"]}


def test_where_requests_of_a_reserved_cache_start(cli: Cli, tmp_path: Path) -> None:
    table = tmp_path / "r.csv"
    assert cli(f"{pool(tmp_path)} --reservation max --requests-csv {table}").code == 0
    firsts = [float(row["first_token_s"]) for row in csv.DictReader(table.open())]
    assert [first - 1 for first in firsts] == [0, 12, 24, 36, 100, 117, 134, 151]


def test_a_long_prompt_in_chunks(cli: Cli) -> None:
    """32,768 tokens by 512: 64 steps of 9.5 to 18 ms, 0.89 s instead of 0.82; 2,048 by 256: 8 steps of 7.4 ms."""
    found = answer(cli, f"{CHUNKS} --isl 32768 --chunk 512")
    steps = [one["step_time_s"] for one in found["chunks"]]
    assert (len(steps), steps[0], steps[-1]) == (64, pytest.approx(9.5e-3, abs=5e-5), pytest.approx(18.2e-3, abs=5e-5))
    assert (found["chunked_ttft_s"], found["bound_s"]) == (pytest.approx(0.89, abs=5e-3), pytest.approx(0.82, abs=5e-3))
    found = answer(cli, f"{CHUNKS} --isl 2048 --chunk 256")
    assert [one["step_time_s"] for one in found["chunks"]] == pytest.approx([7.4e-3] * 8, abs=5e-5)


def test_single_prompts_are_the_queue_m_d_1(cli: Cli) -> None:
    """At 0.7 of what one server of 2 s does the mean wait is 0.7 · 2 / (2 · 0.3) = 2.33 s; at 0.3 of it 0.43 s."""
    line = f"{STEPS.replace('1s', '2s')} --isl 1 --osl 1 --max-num-seqs 1 --requests 20000 --request-rate"
    for load in (0.3, 0.7):
        found = answer(cli, f"{line} {load / 2}")
        assert found["ttft_s"]["mean"] - 2 == pytest.approx(load * 2 / (2 * (1 - load)), rel=0.05)
        assert found["busy_share"] == pytest.approx(load, rel=0.02)


def test_block_tables_of_samples(cli: Cli) -> None:
    """The lesson's: six blocks that all hold, and each its own seventh; the last to write keeps the one they shared."""
    sharing = answer(cli, f"{STEPS} --arrivals at-once --isl 100 --osl 10 --requests 1 --samples 3")["sharing"]
    tables = sharing["tables"]
    assert [table[:6] for table in tables] == [[0, 1, 2, 3, 4, 5]] * 3
    assert sorted(table[6] for table in tables) == [6, 7, 8]
    assert tables[-1][6] == 6
    assert sharing["references"] == [3] * 6 + [1] * 3
    assert "held by" in cli(f"{STEPS} --arrivals at-once --isl 100 --osl 10 --requests 1 --samples 3").out
    long = answer(cli, f"{STEPS} --arrivals at-once --isl 7000 --osl 10 --requests 1 --samples 3")["sharing"]
    assert (long["tables"], long["references"]) == ([], [])


def test_all_at_once_waits_for_the_whole_run(cli: Cli) -> None:
    """Two requests of ten steps and one slot: the second waits for ten of twenty."""
    found = answer(cli, f"{STEPS} --arrivals at-once --isl 1 --osl 10 --requests 2 --max-num-seqs 1")
    assert found["queued_share"] == pytest.approx(0.5)
    assert found["verdict"] == "backlogged"
