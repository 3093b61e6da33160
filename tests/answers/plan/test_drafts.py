"""Drafts in a plan: tried beside plain decoding where an acceptance is given, and never taken without one."""

import shlex

import pytest

from tests.cli.conftest import Cli, cli  # noqa: F401

ASKED = "plan llama-3.1-8b --gpu l40s --gpu h100-sxm -tp 1 --isl 2k --osl 300 --users 60 --ttft 2s --tpot 20ms --top 50"
DRAFTS = "--draft eagle-3 --num-speculative-tokens 3"


@pytest.mark.parametrize("rates", ["--acceptance 0.7", "--acceptance 0.8 --acceptance 0.6 --acceptance 0.5"])
def test_each_deployment_with_and_without_as_size_has_it(cli: Cli, rates: str) -> None:  # noqa: F811
    found = cli(f"{ASKED} {DRAFTS} {rates} --json").result
    plain = cli(f"{ASKED} --json").result
    assert found["tried"] == 2 * plain["tried"]
    assert found["candidates"][0]["usd_per_hour"] <= plain["candidates"][0]["usd_per_hour"]
    assert next(one for one in found["candidates"] if not one["drafts"])["size"] == plain["candidates"][0]["size"]
    one = next(one for one in found["candidates"] if one["drafts"])
    serving = cli(" ".join(shlex.split(one["size"])[1:]) + " --json").result["serving"]
    for name in ("ttft_s", "tpot_s", "usd_per_million_output_tokens"):
        assert one[name] == serving[name]


def test_the_models_own_layers_draft_where_an_acceptance_is_given(cli: Cli) -> None:  # noqa: F811
    line = "plan deepseek-v3 --gpu h200-sxm -tp 8 --isl 2k --osl 300 --users 60 --tpot 40ms --json"
    assert {one["drafts"] for one in cli(line).result["candidates"]} == {0}
    assert {one["drafts"] for one in cli(f"{line} --acceptance 0.8").result["candidates"]} == {0, 1}


def test_no_acceptance_no_times_with_drafts(cli: Cli) -> None:  # noqa: F811
    """They take memory, as in every command; nothing is made faster by a guess."""
    found = cli(f"{ASKED} {DRAFTS} --json")
    assert {one["drafts"] for one in found.result["candidates"]} == {3}
    # Beside each is the command that asks for it: without its drafts it is the plain one's.
    plain = {one["size"]: one["tpot_s"]["value"] for one in cli(f"{ASKED} --json").result["candidates"]}
    same = [(plain[key], one["tpot_s"]["value"]) for one in found.result["candidates"]
            if (key := one["size"].replace(f"{DRAFTS} ", "")) in plain]  # fmt: skip
    assert same
    assert all(a == b for a, b in same)


@pytest.mark.parametrize("tpot", ["12ms", "20ms"])
def test_no_setting_with_drafts_is_cheaper(cli: Cli, tpot: str) -> None:  # noqa: F811
    """Each number of sequences that the search may choose, asked for by its flag: what it rules out must be dearer."""
    line = "plan llama-3.1-8b --gpu l40s -tp 1 -q fp8 --kv-cache-dtype auto --isl 2k --osl 300 --users 40 --ttft 5s "
    line += f"--tpot {tpot} {DRAFTS} --acceptance 0.7 --json"
    best = cli(line).result["candidates"][0]["usd_per_hour"]
    every = cli(line + "".join(f" --max-num-seqs {n}" for n in (16, 32, 64))).result
    assert best <= every["candidates"][0]["usd_per_hour"]
