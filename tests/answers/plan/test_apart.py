"""Separate pools: cheaper where a token must come fast, and the simulator gets what was planned."""

import shlex

import pytest

from tests.cli.conftest import Cli, cli  # noqa: F401

LINE = "plan llama-3.1-70b-fp8 --gpu h200-sxm -tp 2 --isl 3000 --osl 500 --users 100 --ttft 2s"


def test_the_simulator_gets_what_was_planned(cli: Cli) -> None:  # noqa: F811
    result = cli(f"{LINE} --tpot 20ms --json").result
    one = result["separate_pools"][0]
    assert one["usd_per_hour"] < result["candidates"][0]["usd_per_hour"]
    assert one["ttft_s"]["value"] <= 2
    assert one["tpot_s"]["value"] <= 0.020
    ran = cli(" ".join(shlex.split(one["simulate"])[1:]) + " --requests 600 --json").result
    assert ran["tpot_s"]["mean"]["value"] == pytest.approx(one["tpot_s"]["value"], rel=0.15)
    assert ran["ttft_s"]["mean"]["value"] <= 2


def test_one_command_a_pool_of_the_same_deployment(cli: Cli) -> None:  # noqa: F811
    one = cli(f"{LINE} --tpot 20ms --json").result["separate_pools"][0]
    prompts, decodes = one["commands"]
    assert "kv_producer" in prompts
    assert "kv_consumer" in decodes
    for command in one["commands"]:
        ran = cli("size --gpu", one["deployment"]["gpu"], "--json", "--serve", command)
        assert ran.json["inputs"]["tensor_parallel_size"] == one["deployment"]["tensor_parallel_size"]


def test_dearer_pools_are_not_shown(cli: Cli) -> None:  # noqa: F811
    result = cli(f"{LINE.replace('--users 100', '--users 1')} --tpot 100ms --json").result
    assert result["separate_pools"] == []
