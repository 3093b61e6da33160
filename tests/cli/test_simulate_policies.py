"""`kvcalc simulate`: what each engine's scheduler does, and which switches it has."""

import json

import pytest

from tests.cli.conftest import Cli

SOME = "simulate llama-3-8b --gpu l40s --isl 1k --osl 100 --requests 150"


def answer(cli: Cli, line: str) -> dict:
    ran = cli(line + " --json")
    assert ran.code == 0, ran.err
    return json.loads(ran.out)["result"]


@pytest.mark.parametrize("way", ["sampled", "expected"])
def test_drafts_give_what_speculate_says(cli: Cli, way: str) -> None:
    """One request alone: its time per token is that of `speculate` at a batch of 1."""
    drafts = "--draft eagle-3 --num-speculative-tokens 3 --acceptance 0.7"
    line = "simulate llama-3-8b --gpu l40s --isl 500 --osl 2k --requests 8 --concurrency 1"
    found = answer(cli, f"{line} {drafts} --accepting {way}")
    other = answer(cli, "speculate llama-3-8b --gpu l40s --draft eagle-3 --gamma 3 --acceptance 0.7 --context 1.5k")
    plain = answer(cli, "step llama-3-8b --gpu l40s --batch 1 --context 1.5k")["estimate_s"]["value"]
    assert found["tpot_s"]["mean"]["value"] == pytest.approx(plain / other["speedup"]["value"], rel=0.02)
    assert found["steps"] == pytest.approx(8 * 2000 / other["tokens_per_pass"], rel=0.02)


def test_the_urgent_are_served_first(cli: Cli) -> None:
    line = f"{SOME} --request-rate 20 --max-num-seqs 4 --urgent 0.2"
    first = answer(cli, f"{line} --scheduling-policy priority")["by_priority"]
    assert [one["priority"] for one in first] == [0, 1]
    assert sum(one["requests"] for one in first) == 150
    assert first[0]["ttft_s"]["p50"]["value"] < 0.5 * first[1]["ttft_s"]["p50"]["value"]


def test_a_threshold_lets_short_prompts_pass_long_ones(cli: Cli) -> None:
    line = "simulate llama-3-8b --gpu l40s --isl 200-20000 --osl 2 --requests 100 --request-rate 2 --max-model-len 32k"
    plain, capped = (answer(cli, f"{line} {flag}") for flag in ("", "--long-prefill-token-threshold 512"))
    assert capped["ttft_s"]["p50"]["value"] != plain["ttft_s"]["p50"]["value"]


def test_llamacpp_has_slots_and_stops_nobody(cli: Cli) -> None:
    found = answer(cli, f"{SOME} --request-rate 20 --engine llamacpp -c 8k -np 4")
    assert found["max_num_seqs"] == 4
    assert max(moment["running"] for moment in found["timeline"]) == 4
    assert found["preemptions"]["value"] == 0


def test_tensorrt_llm_stops_nobody_and_vllm_does(cli: Cli) -> None:
    line = "simulate llama-3-8b --gpu l40s --isl 500 --osl 1k --requests 60 --arrivals at-once --kv-memory 2GB"
    limit = "--max-model-len 4k"
    assert answer(cli, f"{line} {limit} --engine trtllm")["preemptions"]["value"] == 0
    assert answer(cli, f"{line} {limit}")["preemptions"]["value"] > 0


def test_before_0_19_a_prompt_starts_where_its_first_chunk_fits(cli: Cli) -> None:
    """Four prompts of 20,000 tokens and a pool of 50,000: half of the third has room, so that it thrashes."""
    line = "simulate llama-3-8b --gpu h100-sxm --isl 20k --osl 200 --requests 12 --arrivals at-once --max-model-len 24k"
    pool = "--num-gpu-blocks-override 3200 --max-num-batched-tokens 2k"
    old, new = (answer(cli, f"{line} {pool} --engine-version {version}") for version in ("0.18", "0.19"))
    assert old["preemptions"]["value"] > new["preemptions"]["value"]


@pytest.mark.parametrize(
    "flags, said",
    [
        ("--watermark 0.01 --engine-version 0.19", "came with vLLM 0.24"),
        ("--watermark 0.01 --engine sglang", "SGLang's scheduler"),
        ("--scheduling-policy priority --scheduler static", "not simulated together"),
        ("--urgent 0.5", "changes nothing"),
        ("--acceptance 0.7", "how many drafted tokens"),
        ("--acceptance 0.7 --acceptance 0.6 --num-speculative-tokens 3", "given for 2"),
        ("--network-bandwidth 5", "unit"),
    ],
)
def test_what_a_scheduler_does_not_have(cli: Cli, flags: str, said: str) -> None:
    ran = cli(f"{SOME} --request-rate 1 {flags}")
    assert ran.code == 2
    assert said in ran.err
    assert "hint:" in ran.err
