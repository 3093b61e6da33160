"""Separate pools: cheaper where a token must come fast, and the simulator gets what was planned."""

import shlex

import pytest

from kvcalc.answers.plan.apart import Apart, Pools
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


def test_hopeless_pools_of_a_hundred_thousand_users_are_soon_given_up(cli: Cli) -> None:  # noqa: F811
    """A search over every pair of pools would look at 10^9 of them; and no more meet the targets than were tried."""
    line = "plan nemotron-3-nano-30b-a3b-nvfp4 --gpu rtx-pro-6000-maxq -tp 1 --isl 2k --osl 300 --tpot 40ms"
    result = cli(f"{line} --users 100k --json").result
    assert 0 < result["meeting"] <= result["tried"]


@pytest.mark.parametrize("targets", ["--tpot 20ms --ttft 2s", "--e2e 12s --judge high"])
def test_the_fewest_are_those_of_trying_every_pair(
    cli: Cli,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    targets: str,
) -> None:
    searched, pairs = Pools.fewest, list[tuple[int | None, int | None]]()

    def both(self: Pools, fewer_than: int) -> Apart | None:
        found = searched(self, fewer_than)
        every = (self.at(p, d) for d in range(1, fewer_than) for p in range(1, fewer_than - d)) if self.first else ()
        kept = [one.prefill + one.decode for one in every if one and all(use <= 1 for use in one.uses.values())]
        pairs.append((found and found.prefill + found.decode, min(kept, default=None)))
        return found

    monkeypatch.setattr(Pools, "fewest", both)
    assert cli(f"{LINE.replace('--users 100 --ttft 2s', '--users 30')} {targets}").code == 0
    assert any(found is not None for found, _ in pairs)
    assert all(found == least for found, least in pairs)
