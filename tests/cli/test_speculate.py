"""`kvcalc speculate`: the lessons' figures, and what the command refuses.

Source of the figures: ML Systems lesson 12 (LLM inference serving), sections 4 (step 7) and 8 (question 4).
"""

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Cli, assert_refused

IDEAL = "llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --context 2048"
TABLE = {2: (2.44, 1.88), 3: (2.95, 2.04), 4: (3.36, 2.10), 5: (3.69, 2.11), 6: (3.95, 2.08), 8: (4.33, 1.97)}


def test_the_lessons_table(cli: Cli) -> None:
    result = cli(f"speculate {IDEAL} --draft-cost 0.15 --acceptance 0.8 --json").result
    rows = {row["gamma"]: row for row in result["by_gamma"]}
    for gamma, (tokens, speedup) in TABLE.items():
        assert round(rows[gamma]["tokens_per_pass"], 2) == tokens
        assert round(rows[gamma]["speedup"], 2) == speedup
    assert result["best_gamma"] == result["gamma"] == 5
    assert result["batch"] == 1
    assert result["acceptance_rate"] == 0.8
    assert result["draft_cost_ratio"] == pytest.approx(0.15)


@pytest.mark.parametrize("gamma", TABLE)
def test_at_a_given_draft_length(cli: Cli, gamma: int) -> None:
    result = cli(f"speculate {IDEAL} --draft-cost 0.15 --acceptance 0.8 --gamma {gamma} --json").result
    assert (round(result["tokens_per_pass"], 2), round(result["speedup"], 2)) == TABLE[gamma]
    assert result["gamma"] == gamma
    assert result["best_gamma"] == 5


def test_four_decimals_and_question_four(cli: Cli) -> None:
    result = cli(f"speculate {IDEAL} --draft-cost 0.15 --acceptance 0.8 --gamma 4 --json").result
    assert round(result["tokens_per_pass"], 4) == 3.3616
    result = cli(f"speculate {IDEAL} --draft-cost 0.1 --acceptance 0.6 --gamma 3 --json").result
    assert round(result["tokens_per_pass"], 3) == 2.176
    assert round(result["speedup"], 2) == 1.67


def test_the_cost_of_a_draft_model_is_computed(cli: Cli) -> None:
    """At batch 1 and a short context the weights are all: 1.24 / 8.03."""
    line = "speculate llama-3-8b --gpu h100-sxm --engine ideal --draft llama-3.2-1b --acceptance 0.8 --context 1"
    result = cli(f"{line} --json").result
    assert round(result["draft_cost_ratio"], 2) == 0.15
    assert result["best_gamma"] in (4, 5)


def test_the_rows_of_a_large_batch(cli: Cli) -> None:
    result = cli(f"speculate {IDEAL} --draft-cost 0.15 --acceptance 0.8 --gamma 4 --batch 64 --json").result
    (row,) = [row for row in result["by_batch"] if row["batch"] == 64]
    assert row["verify_rows"] == 320
    assert result["speedup"] == pytest.approx(row["speedup"])


def test_two_files(cli: Cli, tmp_path: Path) -> None:
    np.save(tmp_path / "p.npy", [[0.6, 0.4]])
    np.save(tmp_path / "q.npy", [[0.9, 0.1]])
    files = f"--target-probs {tmp_path}/p.npy --draft-probs {tmp_path}/q.npy"
    result = cli(f"speculate {IDEAL} --draft-cost 0.15 {files} --json").result
    assert round(result["acceptance_rate"], 1) == 0.7


def test_stated_lengths(cli: Cli) -> None:
    one = cli(f"speculate {IDEAL} --draft-cost 0.1 --accepted-length 4:3.3616 --json").result
    assert round(one["acceptance_rate"], 3) == 0.8
    several = cli(f"speculate {IDEAL} --draft-cost 0.1 --accepted-length 1:1.8 --accepted-length 4:2.9 --json").result
    assert several["decay"] < 1


@pytest.mark.parametrize(
    "flags",
    [
        "--acceptance 1.1",
        "--acceptance -0.1",
        "--acceptance x",
        "--acceptance 0.8 --accepted-length 3:2",
        "--accepted-length 3:9",
        "--accepted-length 3",
        "--gamma 0 --acceptance 0.8",
        "--gamma 99 --acceptance 0.8",
        "--acceptance 0.8 --acceptance 0.7 --gamma 3",
        "--acceptance 0.8 --acceptance 0.7 --decay 0.9",
        "--target-probs missing.npy --draft-probs missing.npy",
        "--target-probs only.npy",
        "--draft-cost -1",
        "--draft no-such-model",
        "--draft llama-3.2-1b --draft-cost 0.1",
        "--draft mtp",
        "--draft llama-3.2-1b --tree",
        "--draft eagle --tree --tree-width 2",
        "--tree-width 0",
    ],
)
def test_refused(cli: Cli, flags: str) -> None:
    assert_refused(cli(f"speculate llama-3-8b --gpu h100-sxm {flags}"))


def test_needs_a_gpu(cli: Cli) -> None:
    assert_refused(cli("speculate llama-3-8b"))


def test_an_empty_file_is_an_error_and_nothing_else(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("")
    ran = cli(f"speculate {IDEAL} --draft-cost 0.15 --target-probs {tmp_path}/p.csv --draft-probs {tmp_path}/p.csv")
    assert_refused(ran)
    assert "Warning" not in ran.err


def test_the_page_says_that_serving_beside_it_is_without_drafts(cli: Cli) -> None:
    flags = "--gpu h100-sxm --draft-cost 0.1 --acceptance 0.7 --isl 500 --osl 100 --concurrency 1"
    assert "Serving 1 client without drafts: 500 tokens in, 100 out" in cli(f"speculate llama-3-8b {flags}").out
