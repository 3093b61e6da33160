"""The parts of a page against the commands that they are from, and the frames against what can be counted by hand."""

import math
import shlex
from collections import defaultdict
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from kvcalc.answers.question import ask
from kvcalc.answers.report.answer import report
from kvcalc.answers.report.explorer import caches
from kvcalc.results.data import data_of
from kvcalc.results.report import ReportResult
from tests.cli.conftest import Cli

FLAGS = {"gpu": "h100-sxm", "price_usd_per_hour": "2"}


@cache
def found() -> ReportResult:
    return report("llama-3-8b", FLAGS, {}).result


def answer(cli: Cli, part: str, *more: str) -> Any:
    """The JSON of the command beside a part."""
    ran = cli("", *shlex.split(found().commands[part])[1:], *more, "--json")
    assert ran.code == 0, ran.err
    return ran.result


@pytest.mark.parametrize("part", ["size", "plan"])
def test_answers_are_the_commands(cli: Cli, part: str) -> None:
    assert data_of(getattr(found(), part)) == answer(cli, part)


def test_every_point_of_the_explorer_is_a_curves(cli: Cli) -> None:
    points = {(one["context"], one["batch"]): one for one in answer(cli, "explorer")["points"]}
    explorer = found().explorer
    assert explorer is not None
    shown = [one for one in explorer.points if one.cache == "as it is"]
    assert {(one.context, one.batch) for one in shown} == points.keys()
    for one in shown:
        wanted = points[one.context, one.batch]
        given = data_of(one)
        for name in given.keys() & wanted.keys() - {"fits"}:
            assert given[name] == wanted[name], name


def test_the_lessons_memory_and_ridge() -> None:
    """Lesson: 16.1 GB of weights, 128 KiB a token, a ridge of 295, four times the cache without grouped heads."""
    explorer = found().explorer
    assert explorer is not None
    assert explorer.ridge_flop_per_byte == pytest.approx(295, abs=0.5)
    assert explorer.weight_bytes_per_gpu == pytest.approx(16.1e9, rel=0.005)
    stored = {one.cache: one.stored_bytes_per_gpu for one in explorer.points if (one.context, one.batch) == (2048, 8)}
    assert stored["as it is"] == 8 * 2048 * 131072
    assert stored["fp8 cache"] == 8 * 2048 * 65536
    assert stored["a KV head per query head, MHA"] == 8 * 2048 * 4 * 131072


@pytest.mark.parametrize("seed", [0, 2])
@pytest.mark.parametrize("scheduler", ["static", "continuous"])
def test_schedules_are_simulates(cli: Cli, scheduler: str, seed: int) -> None:
    wanted = answer(cli, scheduler, "--seed", str(seed))
    schedules = found().schedules
    assert schedules is not None
    key = (seed, 128, scheduler)
    (one,) = [one for one in schedules.schedules if (one.seed, one.longest, one.scheduler) == key]
    for name in ("duration_s", "output_tokens_per_s", "slot_use"):
        assert getattr(one, name) == pytest.approx(wanted[name]["value"], rel=1e-9), name
    segments = [s for s in schedules.segments if (s.seed, s.longest, s.scheduler) == key]
    busy = sum(s.end_s - s.start_s for s in segments if s.kind != "idle")
    assert busy / (schedules.slots * one.duration_s) == pytest.approx(one.slot_use, rel=1e-9)


def test_slots_hold_one_request_at_a_time_and_every_request_once() -> None:
    schedules = found().schedules
    assert schedules is not None
    slots = defaultdict(list)
    requests = defaultdict(set)
    for one in schedules.segments:
        slots[one.seed, one.longest, one.scheduler, one.slot].append((one.start_s, one.end_s))
        if one.kind == "prefill":
            assert one.request not in requests[one.seed, one.longest, one.scheduler]
            requests[one.seed, one.longest, one.scheduler].add(one.request)
    for spans in slots.values():
        spans.sort()
        assert all(end == pytest.approx(start) for (_, end), (start, _) in pairwise(spans))
    assert all(len(those) == schedules.requests for those in requests.values())


MODES = [("contiguous", "in one piece"), ("paged", "paged"), ("crowded", "paged, twice the requests")]


@pytest.mark.parametrize("part, mode", MODES)
def test_the_pool_is_simulates(cli: Cli, part: str, mode: str) -> None:
    wanted = answer(cli, part)
    pool = found().pool
    assert pool is not None
    (run,) = [one for one in pool.runs if one.mode == mode]
    assert (wanted["num_blocks"], wanted["block_size"]) == (pool.blocks, pool.block_size)
    assert run.steps == wanted["steps"]
    assert run.slot_use == pytest.approx(wanted["slot_use"])
    assert run.block_use == pytest.approx(wanted["block_use"])
    stopped = [one.preemptions for one in pool.moments if one.mode == mode]
    assert stopped == sorted(stopped)
    assert stopped[-1] == wanted["preemptions"]
    assert (stopped[-1] > 0) is (part == "crowded")


def test_pages_waste_less_than_a_block_a_request() -> None:
    """The lessons' bound on the waste, and what a reservation lets run: four requests of a fourth of the pool."""
    pool = found().pool
    assert pool is not None
    for one in pool.moments:
        if one.mode == "in one piece":
            assert one.running <= 4
            assert one.held_blocks * pool.block_size == one.running * pool.reserved_tokens
        else:
            assert one.held_blocks * pool.block_size - one.tokens < pool.block_size * max(1, one.running)
    forked = [one for one in pool.moments if "forked" in one.mode]
    assert max(one.copies for one in forked) == 1  # the second to write does so in place
    assert any(one.holders == 2 for one in pool.cells if "forked" in one.mode)
    assert not any(one.holders > 1 for one in pool.cells if "forked" not in one.mode)


def test_sampling_is_the_lessons_example() -> None:
    """λ = 0 is p = (0.6, 0.4) and q = (0.9, 0.1): α = 0.7, and 0.3 are resampled to the second token."""
    sampling = found().sampling
    first = [one for one in sampling.distribution if (one.tokens, one.quality) == (2, 0)]
    assert [(one.kept, round(one.resampled, 12)) for one in first] == [(0.6, 0), (0.1, 0.3)]
    assert next(one.acceptance for one in sampling.rates if (one.tokens, one.quality) == (2, 0)) == pytest.approx(0.7)
    for one in sampling.distribution:
        assert one.kept + one.resampled == pytest.approx(one.target)
        for drawn in one.drawn:  # five standard errors of 2,000 draws
            assert abs(drawn - one.target) < 5 * math.sqrt(one.target * (1 - one.target) / sampling.draws)


def test_rounds_are_speculates(cli: Cli) -> None:
    wanted = answer(cli, "rounds")
    rounds = found().rounds
    assert rounds is not None
    assert rounds.draft_cost_ratio == wanted["draft_cost_ratio"]
    rows = {one.gamma: one for one in rounds.rows if one.acceptance == 0.8}
    for row in wanted["by_gamma"]:
        assert rows[row["gamma"]].speedup == pytest.approx(row["speedup"], rel=1e-12)
        assert rows[row["gamma"]].tokens_per_pass == pytest.approx(row["tokens_per_pass"], rel=1e-12)
    assert rows[4].tokens_per_pass == pytest.approx(3.3616)  # the lessons'
    assert rows[4].reach == pytest.approx((0.8, 0.64, 0.512, 0.4096))
    drawn = [one.accepted for one in rounds.rounds if (one.acceptance, one.gamma) == (0.8, 4)]
    assert len(drawn) == 36
    assert max(drawn) <= 4


def test_prompts_are_prefills(cli: Cli) -> None:
    wanted = answer(cli, "prompts")
    prompts = found().prompts
    assert prompts is not None
    assert prompts.decode_step_s == wanted["decode_step_s"]
    modes = {one.mode: one for one in prompts.modes if one.prompt == 8192}
    assert modes["one piece"].worst_step_s == pytest.approx(wanted["spike"]["step_time_s"], rel=1e-12)
    assert modes["one piece"].ratio == pytest.approx(wanted["spike"]["ratio"], rel=1e-12)
    assert modes["chunks of 512"].prompt_s == pytest.approx(wanted["chunked_ttft_s"], rel=1e-12)
    apart = modes["on GPUs of its own"]
    assert apart.prompt_s == wanted["estimate_s"]["value"]
    assert apart.transfer_s in [one["time_s"] for one in wanted["transfer"]]
    steps = [one for one in prompts.steps if (one.prompt, one.mode) == (8192, "chunks of 512") and one.tokens]
    assert [(one.tokens, one.step_time_s) for one in steps] == [
        (c["tokens"], c["step_time_s"]) for c in wanted["chunks"]
    ]


def test_the_workload_of_the_plan_is_said_where_it_is_not_given() -> None:
    assumed = report("llama-3-8b", FLAGS, {}).assumptions
    (one,) = [one for one in assumed if one.name == "plan's workload"]
    assert "--input-len 1000" in str(one.value)
    given = report("llama-3-8b", FLAGS | {"input_len": "2k", "output_len": "256", "tpot_s": "30ms"}, {"users": "20"})
    assert not [one for one in given.assumptions if one.name == "plan's workload"]
    assert given.result.plan is not None
    assert given.result.plan.users == 20
    assert given.result.prompts is not None
    assert given.result.prompts.tpot_target_s == 0.03


def test_several_replicas_show_one() -> None:
    """Each replica has slots and a pool of its own; no command simulates one of them alone."""
    result = report("qwen3-0.6b", FLAGS | {"data_parallel_size": "2"}, {}).result
    assert result.pool is not None
    assert not result.pool.as_served
    assert max(one.running for one in result.pool.moments if one.mode == "in one piece") == 4
    assert result.schedules is not None
    assert all(one.slot_use <= 1 for one in result.schedules.schedules)
    assert not {"static", "continuous"} & result.commands.keys()


@pytest.mark.parametrize("model, without", [
    ("falcon-mamba-7b", {"pool"}), ("deepseek-v3", {"schedules"}), ("gpt-oss-20b", set()), ("qwen3-0.6b", set()),
])  # fmt: skip
def test_what_a_deployment_has_no_answer_to_is_left_out_with_its_reason(model: str, without: set[str]) -> None:
    """One GPU has no room for DeepSeek-V3, and a state-space model has no pages."""
    result = report(model, FLAGS, {}).result
    missing = {one.part: one.why for one in result.omitted}
    assert without <= missing.keys() <= without | {"plan", "pool", "explorer", "rounds", "prompts"}
    assert all(missing.values())
    assert all(getattr(result, part) is None for part in missing)


def test_caches_of_a_plain_model_have_their_names() -> None:
    names = [name for name, _ in caches(ask("llama-3-8b", {"gpu": "h100-sxm"}))]
    assert names == ["as it is", "fp8 cache", "a KV head per query head, MHA"]


def test_a_figure_is_drawn_without_a_browser_too() -> None:
    """The spec of the page, its rows in it, gives an SVG: names of axes, legends, and the state that it starts in."""
    from kvcalc.render.pictures.chart import config
    from kvcalc.render.pictures.draw import svg
    from kvcalc.render.pictures.palette import colours
    from kvcalc.render.pictures.report import explorer, pool, prompts, rounds, sampling, schedules

    result, colour = found(), colours()
    assert result.explorer is not None
    assert result.schedules is not None
    assert result.pool is not None
    assert result.rounds is not None
    assert result.prompts is not None
    figures = [
        (explorer.figure(result.explorer, "", colour), ["weights", "ridge 295", "64", "GiB of one GPU"]),
        (schedules.figure(result.schedules, (), colour), ["slot, static", "slot, continuous", "idle"]),
        (pool.figure(result.pool, (), colour), ["held, but empty"]),
        (sampling.figure(result.sampling, colour), ["resampled", "target p"]),
        (rounds.figure(result.rounds, "", colour), ["no gain", "0.41"]),  # 0.8 to the fourth
        (prompts.figure(result.prompts, "", colour), ["50.0 ms", "with the prompt"]),
    ]
    for figure, words in figures:
        text = "".join(svg({**one, "width": 500, "config": config(colour)}).decode() for one in figure.specs)
        assert "NaN" not in text
        for word in words:
            assert f">{word}</text>" in text, word
