"""Every figure of a plan is that of `size` for the same deployment and clients: whatever is deployed."""

import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.answers.test_one_answer import result

KINDS = (
    "llama-3.1-8b --gpu l40s",
    "llama-3.1-8b --gpu l40s --draft eagle-3 --num-speculative-tokens 2 --acceptance 0.8 --acceptance 0.7",
    "llama-3.1-8b --gpu g6e.12xlarge -tp 1",  # a machine, paid whole
    "llama-3.1-8b --gpu l40s --gpu mi300x --engine sglang -tp 1 -tp 2",
    "llama-3.1-8b --gpu rtx4090 --engine llamacpp -q q8_0 -c 64k -np 8",
    "qwen3-30b-a3b --gpu h200-sxm -tp 4 --enable-expert-parallel",
    "qwen3-30b-a3b --gpu h200-sxm",  # replicas of attention that share experts among the layouts
    "deepseek-v2-lite --gpu h100-sxm -tp 1 -tp 2",
    "qwen3-next-80b-a3b --gpu h200-sxm -tp 4 --mamba-ssm-cache-dtype fp32",
    "gpt-oss-120b --gpu b200-sxm -tp 1 --engine trtllm",
)


@st.composite
def questions(draw: st.DrawFn) -> str:
    isl, osl = draw(st.integers(16, 4000)), draw(st.integers(2, 600))
    asked = f"{draw(st.sampled_from(KINDS))} --isl {isl} --osl {osl}"
    load = draw(st.sampled_from(("--users", "--users-think", "--request-rate")))
    if load == "--request-rate":
        asked += f" --request-rate {draw(st.integers(1, 40)) / 4}"
    else:
        asked += f" --users {draw(st.integers(1, 400))}" + (" --think-time 3s" if load == "--users-think" else "")
    if draw(st.booleans()):
        asked += f" --prefix-hit {draw(st.integers(0, isl))}"
    if draw(st.booleans()):
        asked += f" --tpot {draw(st.integers(20, 90))}ms --ttft {draw(st.integers(1, 9))}s"
    return asked + draw(st.sampled_from(("", " --equal-lengths")))


@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(questions())
@example("llama-3.1-8b --gpu g6e.12xlarge -tp 1 --isl 263 --osl 27 --users 70 --tpot 21ms")  # four replicas fill it
def test_a_plan_says_what_size_says(capsys: pytest.CaptureFixture[str], asked: str) -> None:
    found = result(capsys, "plan", *asked.split())
    if found is None:  # what is asked cannot be deployed
        return
    for one in found["candidates"][:2]:
        size = result(capsys, *shlex.split(one["size"])[1:])
        check(one, size, found)


def check(one: dict[str, Any], size: dict[str, Any], found: dict[str, Any]) -> None:
    serving, replicas = size["serving"], one["replicas"]
    assert [one[name] for name in ("fits", "fit", "reason")] == [size[name] for name in ("fits", "fit", "reason")]
    assert one["concurrency"] == serving["concurrency"]
    for name in ("ttft_s", "tpot_s", "output_tokens_per_s_per_gpu"):
        assert one[name] == serving[name], name
    for end in ("value", "low", "high"):
        assert one["output_tokens_per_s"][end] == replicas * serving["output_tokens_per_s"][end]
        whole = serving["ttft_s"][end] + (found["output_len"] - 1) * serving["tpot_s"][end]
        assert one["e2e_s"][end] == pytest.approx(whole, rel=1e-12)
    have = {"ttft": serving["ttft_s"], "tpot": serving["tpot_s"], "e2e": one["e2e_s"]}
    limits = {name.removesuffix("_s"): limit for name, limit in found["targets"].items() if limit is not None}
    broken = {name for name, limit in limits.items() if have[name]["value"] > limit}
    assert {miss["target"] for miss in one["misses"]} == broken
    if one["gpus_billed"] == one["gpus"] and size["gpus_billed"] in (None, size["gpus"]):  # no machine partly idle
        assert one["usd_per_million_output_tokens"] == serving["usd_per_million_output_tokens"]
        if one["money"] is not None and one["money"]["utilization"] == 1:
            assert one["money"]["usd_per_million_tokens"] == serving["usd_per_million_tokens"]
    if found["users"] is not None and not found["think_s"]:
        assert (
            replicas * one["concurrency"] * one["deployment"].get("data_parallel_size", 1) >= found["users"]
            or not found["met"]
        )
