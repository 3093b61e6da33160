"""Prefix caching in a plan: off beside on only where that makes room, and off means that nothing is cached."""

import shlex

from tests.cli.conftest import Cli, cli  # noqa: F401

STATES = "plan qwen3-next-80b-a3b --gpu h200-sxm -tp 1 -q fp8 --kv-cache-dtype auto --isl 2k --osl 500 --users 9 --json"


def test_off_is_tried_where_states_are_kept_for_prefixes(cli: Cli) -> None:  # noqa: F811
    both = cli(STATES).result
    assert both["tried"] == 2
    ways = {one["deployment"].get("enable_prefix_caching", True): one for one in both["candidates"]}
    assert ways[False]["concurrency"] * ways[False]["replicas"] >= 9
    serving = cli(" ".join(shlex.split(ways[False]["size"])[1:]) + " --json").result["serving"]
    assert ways[False]["tpot_s"] == serving["tpot_s"]
    # 0.25 keeps no states of prefixes (state_pages): off is on without a prefix, and one of the two is enough
    assert cli(f"{STATES} --engine-version 0.25").result["tried"] == 1
    assert cli(f"{STATES} --prefix-hit 1k").result["tried"] == 1


def test_of_equal_bills_caching_stays_on(cli: Cli) -> None:  # noqa: F811
    one = cli(f"{STATES} --tpot 60ms").result["candidates"][0]
    assert "enable_prefix_caching" not in one["deployment"]


def test_nothing_is_cached_where_caching_is_off(cli: Cli) -> None:  # noqa: F811
    line = "size qwen3-8b --gpu l40s --isl 4k --osl 200 --concurrency 8 --json"
    off = cli(f"{line} --prefix-hit 2k --no-enable-prefix-caching").result["serving"]
    assert off == cli(line).result["serving"]
    assert off["ttft_s"]["value"] > cli(f"{line} --prefix-hit 2k").result["serving"]["ttft_s"]["value"]
