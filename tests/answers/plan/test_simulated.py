"""Percentiles: the candidates that are shown hold them in the simulator."""

from pathlib import Path

import pytest

from tests.cli.conftest import Cli, cli  # noqa: F401

LINE = "plan llama-3.1-8b --gpu l40s -tp 1 -q fp8 --kv-cache-dtype auto --isl 1000 --osl 200 --users 80"


def test_a_percentile_takes_more_replicas_than_a_mean(cli: Cli) -> None:  # noqa: F811
    mean = cli(f"{LINE} --tpot 28ms --json").result["candidates"][0]
    found = cli(f"{LINE} --tpot 28ms --percentile 95 --json").result
    (one,) = found["candidates"]
    assert found["met"] is True
    assert mean["simulated"] is None
    assert one["replicas"] > mean["replicas"]
    assert one["simulated"]["tpot_s"] <= 0.028
    assert one["simulated"]["met_share"] >= 0.9
    fewer = one["next_cheaper"]
    assert fewer["replicas"] == one["replicas"] - 1
    assert fewer["percentile"] == 95
    (miss,) = fewer["misses"]
    assert miss["target"] == "tpot"
    assert miss["have_s"] > 0.028
    assert miss["by"] == pytest.approx(miss["have_s"] / 0.028 - 1)


def test_lengths_are_those_of_size_and_simulate() -> None:
    """Half to one and a half of the mean; less where the longest request would have no room for more."""
    from kvcalc.answers.simulate.lengths import around

    prompt, output = around(1000, 200, None)
    assert (prompt.low, prompt.high, output.low, output.high) == (500, 1500, 100, 300)
    prompt, output = around(1000, 200, 1500)  # 1,500 / 1,200 - 1 = a quarter
    assert (prompt.low, prompt.high, output.low, output.high) == (750, 1250, 150, 250)


def test_the_same_seed_gives_the_same_answer(cli: Cli) -> None:  # noqa: F811
    line = f"{LINE} --ttft 2s --percentile 90 --seed 3 --json"
    assert cli(line).result == cli(line).result


def test_a_trace_has_its_own_lengths_and_its_busiest_minute(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """One request a second for a minute, then one every ten seconds; prompts of 200 and 400, answers of 50."""
    times = [*range(60), *range(60, 160, 10)]
    rows = "\n".join(f"2023-11-16 18:{t // 60:02}:{t % 60:02}.0,{200 if t % 2 else 400},50" for t in times)
    trace = tmp_path / "trace.csv"
    trace.write_text(f"TIMESTAMP,ContextTokens,GeneratedTokens\n{rows}\n")
    result = cli(f"plan llama-3.1-8b --gpu l40s -tp 1 --trace {trace} --tpot 40ms --json").result
    assert result["request_rate"] == 1.0
    prompts = [200 if t % 2 else 400 for t in times]
    assert result["input_len"] == round(sum(prompts) / len(prompts))
    assert result["output_len"] == 50
