"""Plans: what is named holds the load in `size`, nothing cheaper of the space does, and a wrong question is refused."""

import pytest

from kvcalc.cli.app import run
from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401

ASKED = "plan llama-3.1-8b --gpu l40s --gpu h100-sxm --isl 2k --osl 300 --users 100 --ttft 2s --tpot 40ms"


def test_figures_are_those_of_size_to_the_last_digit(cli: Cli) -> None:  # noqa: F811
    """The printed `size` command, run, gives every latency and rate of its candidate."""
    import shlex

    found = cli(f"{ASKED} --json").result["candidates"]
    assert len(found) > 2
    for one in found[:3]:
        capacity = one["replicas"] * one["concurrency"]
        assert capacity >= 100
        serving = cli(" ".join(shlex.split(one["size"])[1:]) + " --json").result["serving"]
        assert {name: one[name] for name in ("ttft_s", "tpot_s")} == {
            name: serving[name] for name in ("ttft_s", "tpot_s")
        }
        assert one["usd_per_million_output_tokens"] == serving["usd_per_million_output_tokens"]
        assert one["output_tokens_per_s"]["value"] == one["replicas"] * serving["output_tokens_per_s"]["value"]
        assert serving["ttft_s"]["value"] <= 2
        assert serving["tpot_s"]["value"] <= 0.04


def test_the_cheapest_first_and_one_replica_fewer_misses(cli: Cli) -> None:  # noqa: F811
    found = cli(f"{ASKED} --json").result["candidates"]
    bills = [one["usd_per_hour"] for one in found if not one["pareto"]]
    assert bills == sorted(bills)
    for one in found:
        fewer = one["next_cheaper"]
        assert (fewer is None) == (one["replicas"] == 1)
        if fewer is not None:
            assert fewer["replicas"] == one["replicas"] - 1
            assert fewer["misses"]


WRONG = [
    "plan llama-3-8b --gpu h100-sxm --isl 1k --osl 100 --request-rate 5 --engine ideal",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300",
    "plan llama-3.1-8b --gpu l40s --users 20",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 20 --request-rate 3",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --request-rate 3 --think-time 3s",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --peak-factor 3",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --gpus-available 3",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --seed 3",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --limit-mm-per-prompt 2",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --acceptance 0.7",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --draft eagle-3",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --num-speculative-tokens 3 --acceptance 0.7",
    "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 3 --draft no/such --num-speculative-tokens 3 "
    "--acceptance 0.7",
]


@pytest.mark.parametrize("line", WRONG)
def test_a_wrong_question_is_refused(cli: Cli, line: str) -> None:  # noqa: F811
    assert_refused(cli(line))


@pytest.mark.parametrize("flags, said", [
    ("--ctx-size 2", "--ctx-size is a flag of llama.cpp"), ("--pricing spot", "only machines have such a price"),
    ("--enable-expert-parallel", "no experts to spread"), ("-tp 3", "do not divide"),
])  # fmt: skip
def test_what_no_memory_mends_is_said_as_it_is(cli: Cli, flags: str, said: str) -> None:  # noqa: F811
    ran = cli(f"plan llama-3-8b --gpu l4 --isl 1k --osl 100 --users 3 {flags}")
    assert_refused(ran)
    assert said in ran.err


def test_what_does_not_fit_is_answered_so(cli: Cli) -> None:  # noqa: F811
    """405B of bf16 on L4s of 24 GB: no layout of a node holds 812 GB, and the largest is named."""
    line = "plan llama-3.1-405b --gpu l4 --isl 2k --osl 300 --users 3 -q none"
    result = cli(f"{line} --json").result
    assert (result["fits"], result["fit"], result["met"], result["candidates"]) == (False, "does_not_fit", False, [])
    assert result["reason"].startswith("on 8 × l4: ") or result["reason"].startswith("on 32 × l4: ")
    ran = cli(line)
    assert ran.code == 0
    assert ran.out.splitlines()[1].startswith("  does not fit: on ")


def test_the_firsts_verdict_is_at_the_top(cli: Cli) -> None:  # noqa: F811
    """70B of bf16 on eight L4: at the low end of the pool's range it does not start."""
    line = "llama-3-70b --gpu l4 -tp 8 -q none --kv-cache-dtype auto --isl 1k --osl 100"
    result = cli(f"plan {line} --users 3 --json").result
    size = cli("size llama-3-70b --gpu l4 -tp 8 --isl 1k --osl 100 --json").result
    assert (size["fits"], size["fit"]) == (None, "may_fit")
    for one in (result, result["candidates"][0]):
        assert [one[name] for name in ("fits", "fit", "reason")] == [size[name] for name in ("fits", "fit", "reason")]
    assert "the first may fit: " in cli(f"plan {line} --users 3").out


def test_an_empty_answer_says_what_misses_and_by_how_much(cli: Cli) -> None:  # noqa: F811
    result = cli("plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 20 --tpot 1ms --json").result
    assert result["met"] is False
    (miss,) = result["candidates"][0]["misses"]
    assert miss["target"] == "tpot"
    assert miss["have_s"] == pytest.approx(0.001 * (1 + miss["by"]))
    assert "TPOT" in result["summary"][0]


def test_a_limit_on_gpus_or_money_leaves_out_what_breaks_it(cli: Cli) -> None:  # noqa: F811
    best = cli(f"{ASKED} --json").result["candidates"][0]
    name, needed = best["deployment"]["gpu"], best["gpus"]
    assert cli(f"{ASKED} --gpus-available {name}={needed} --json").result["candidates"][0]["gpus"] == needed
    less = cli(f"{ASKED.replace(' --gpu l40s --gpu h100-sxm', '')} --gpus-available {name}={needed - 1} --json")
    assert less.result["met"] is False
    assert "needs" in less.result["summary"][0]
    poor = cli(f"{ASKED} --max-usd-per-hour {best['usd_per_hour'] * 0.9} --json").result
    assert poor["met"] is False
    assert "an hour more than the limit" in poor["summary"][0]


def test_a_page_fits_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(ASKED.split()) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_machines_of_long_names_have_a_letter(cli: Cli) -> None:  # noqa: F811
    """Azure's and Nebius' are longer than a row has room for; nothing of them is cut off."""
    names = ("Standard_ND96isr_MI300X_v5", "gpu-h100-sxm_8gpu-128vcpu-1600gb", "p5.48xlarge")
    gpus = " ".join(f"--gpu {name}" for name in names)
    page = cli(f"plan qwen3-30b-a3b {gpus} --isl 3000 --osl 500 --users 2000 --think-time 10s --ttft 2s --e2e 60s").out
    table = page.partition("The first:")[0].splitlines()
    assert all(len(line) <= 80 for line in table)
    rows = [line for line in table if " × TP" in line or " × DP" in line]
    assert {line.split(" × ")[1].split()[0] for line in rows} <= {"a", "b", "p5.48xlarge"}
    for letter in {line.split(" × ")[1].split()[0] for line in rows} & {"a", "b"}:
        assert any(line.strip().startswith(f"{letter}: ") for line in table)
    assert all("$" in line for line in rows)  # no row is broken in two
