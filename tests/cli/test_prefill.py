"""`kvcalc prefill`: the lessons' figures, and what the command refuses.

Source of the figures: ML Systems lesson 12 (LLM inference serving), sections 4 (steps 5 and 6) and 8 (questions 5, 6).
"""

import pytest

from tests.cli.conftest import Cli, assert_refused

IDEAL = "llama-3-8b --gpu h100-sxm --engine ideal --kv-memory 50GB --batch 64 --context 1024"


def test_a_prompt_of_2048(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 2048 --json").result
    assert round(result["flops"] / 1e12, 1) == 34.0
    assert round(result["attention_share"], 2) == 0.03
    assert round(result["bound_s"] * 1e3) == 34
    assert round(result["decode_step_s"] * 1e3, 2) == 7.36
    assert result["free_chunk_tokens"]["bound"] == 389
    assert result["estimate_s"] is None


def test_at_half_of_the_peak(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 2048 --chunk 256 --compute-efficiency 0.5 --json").result
    assert round(result["bound_s"] * 1e3) == 69
    assert round(result["spike"]["step_time_s"] * 1e3) == 71
    assert round(result["spike"]["ratio"]) == 10
    times = [one["step_time_s"] * 1e3 for one in result["chunks"]]
    assert len(times) == 8
    assert round(times[0], 1) == 10.5
    assert round(times[-1]) == 11


def test_chunks_of_256_at_the_peak(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 2048 --chunk 256 --json").result
    assert {round(one["step_time_s"] * 1e3, 1) for one in result["chunks"]} == {7.4}


def test_the_long_prompt_chunk_by_chunk(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 32768 --chunk 512 --json").result
    assert round(result["flops"] / 1e12, -1) == 810
    assert round(result["bound_s"], 2) == 0.82
    assert result["spike"]["ratio"] > 100
    times = [one["step_time_s"] for one in result["chunks"]]
    assert len(times) == 64
    assert round(times[0] * 1e3, 1) == 9.5
    assert round(times[-1] * 1e3) == 18
    assert times == sorted(times)
    assert round(result["chunked_ttft_s"], 2) == 0.89


def test_the_long_prompt_at_half_of_the_peak(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 32768 --chunk 512 --compute-efficiency 0.5 --json").result
    times = [one["step_time_s"] * 1e3 for one in result["chunks"]]
    assert (round(times[0]), round(times[-1])) == (19, 36)
    assert round(result["bound_s"], 1) == 1.6


def test_transfers(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 2048 --json").result
    links = {one["link"]: one for one in result["transfer"]}
    assert round(links["network"]["bytes"] / 1e6) == 268
    assert round(links["network"]["time_s"] * 1e3, 1) == 5.4
    assert round(links["nvlink"]["time_s"] * 1e3, 1) == 0.6
    assert links["network"]["exposed_s"] == pytest.approx(links["network"]["time_s"] / 32)  # one of 32 layers


def test_swap_and_recompute(cli: Cli) -> None:
    result = cli(f"prefill {IDEAL} --input-len 1500 --host-bandwidth 50GB --json").result["preemption"]
    assert round(result["bytes"] / 1e6) == 197
    assert round(result["swap_one_way_s"] * 1e3) == 4  # the lesson: each way
    assert result["swap_s"] == 2 * result["swap_one_way_s"]
    assert round(result["recompute_s"] * 1e3) == 24
    assert result["cheaper"] == "swap"


def test_a_prompt_above_the_maximum_is_a_warning(cli: Cli) -> None:
    ran = cli(f"prefill {IDEAL} --input-len 32768")
    assert ran.code == 0
    assert "warning: a prompt of 32,768 is above the model's maximum of 8,192" in ran.err


@pytest.mark.parametrize("flags", ["--chunk 0", "--chunk 8.5K", "--prefix-hit -1", "--compute-efficiency 0",
                                   "--compute-efficiency 2", "--host-bandwidth 50", "--batch 9000"])  # fmt: skip
def test_refused(cli: Cli, flags: str) -> None:
    assert_refused(cli(f"prefill llama-3-8b --gpu h100-sxm {flags}"))


def test_needs_a_gpu(cli: Cli) -> None:
    assert_refused(cli("prefill llama-3-8b"))
