"""`kvcalc simulate` from the command line."""

import json

import pytest

from tests.cli.conftest import Cli

LESSON = "simulate llama-3-8b --gpu h100-sxm --engine ideal --step-time 1s --arrivals at-once --isl 1"


def answer(cli: Cli, line: str) -> dict:
    ran = cli(line + " --json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["result"]


def test_continuous_batching_of_the_lesson(cli: Cli) -> None:
    # numpy.random.default_rng(0).integers(1, 33, 200) steps, 8 slots: 454 steps, 96.6 % of the slots, mean 219.470
    found = answer(cli, f"{LESSON} --osl 1-32 --requests 200 --max-num-seqs 8")
    assert found["steps"] == 454
    assert found["slot_use"] == pytest.approx(0.966, abs=5e-4)
    assert found["e2e_s"]["mean"] == pytest.approx(219.470, abs=5e-4)


def test_continuous_batching_of_many(cli: Cli) -> None:
    found = answer(cli, f"{LESSON} --osl 1-256 --requests 1000 --max-num-seqs 32")
    assert found["steps"] == 4301
    assert found["slot_use"] == pytest.approx(0.963, abs=5e-4)


def test_percentiles_have_ranges_and_rates_a_load(cli: Cli) -> None:
    found = answer(cli, "simulate llama-3-8b --gpu h100-sxm --isl 100-2000 --osl 200 --request-rate 10 --requests 300")
    for name in ("ttft_s", "tpot_s", "e2e_s"):
        for one in found[name].values():
            assert one["low"] <= one["value"] <= one["high"]
    assert found["verdict"] == "stable"
    assert 0.3 < found["load"]["value"] < 1
    assert found["preemptions"]["value"] == 0


def test_more_than_can_be_served_is_overloaded(cli: Cli) -> None:
    found = answer(cli, "simulate llama-3-8b --gpu h100-sxm --isl 1k --osl 100 --request-rate 100 --requests 500")
    assert found["verdict"] == "overloaded"
    assert found["load"]["low"] > 1


@pytest.mark.parametrize(
    "flags, said",
    [
        ("--isl 100", "how long are the requests?"),
        ("--isl 100 --osl 10", "when do requests come?"),
        ("--isl 100 --osl 10 --request-rate 1 --concurrency 2", "contradict"),
        ("--isl 200-100 --osl 10 --request-rate 1", "runs from 200 to 100"),
        ("--isl 100M --osl 10 --request-rate 1", "no request can run"),
    ],
)
def test_bad_input(cli: Cli, flags: str, said: str) -> None:
    ran = cli(f"simulate llama-3-8b --gpu h100-sxm {flags}")
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err
