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


@pytest.mark.parametrize("engine", ["sglang", "trtllm", "llamacpp"])
def test_drafts_of_other_engines(cli: Cli, engine: str) -> None:
    """As vLLM's: fewer steps by the tokens that each gives, 1 + 0.7 + 0.7² + 0.7³."""
    line = f"simulate llama-3-8b --gpu l40s --isl 500 --osl 1k --requests 6 --concurrency 1 --engine {engine}"
    drafts = "--draft eagle-3 --num-speculative-tokens 3 --acceptance 0.7 --accepting expected"
    plain, drafted = answer(cli, line), answer(cli, f"{line} {drafts}")
    assert drafted["steps"] == pytest.approx(plain["steps"] / 2.533, rel=0.02)
    assert drafted["tpot_s"]["mean"]["value"] < plain["tpot_s"]["mean"]["value"]


def test_sglang_serves_the_urgent_first(cli: Cli) -> None:
    line = f"{SOME} --request-rate 20 --max-num-seqs 4 --urgent 0.2 --engine sglang --scheduling-policy priority"
    first = answer(cli, line)["by_priority"]
    assert first[0]["ttft_s"]["p50"]["value"] < 0.5 * first[1]["ttft_s"]["p50"]["value"]


def test_clients_of_two_pools_wait_for_whole_answers(cli: Cli) -> None:
    """Three replicas of four clients: by Little's law their requests a second times a request's time is twelve."""
    line = "simulate llama-3-8b --gpu l40s --isl 500 --osl 100 --requests 240 --concurrency 4 -dp 3"
    found = answer(cli, f"{line} --prefill-replicas 1 --network-bandwidth 50GB/s")
    assert found["clients"] == 12
    assert found["requests_per_s"]["value"] * found["e2e_s"]["mean"]["value"] == pytest.approx(12, rel=0.05)
    drafted = answer(cli, f"{line} --prefill-replicas 1 --network-bandwidth 50GB/s --num-speculative-tokens 3 "
                     "--draft eagle-3 --acceptance 0.7")  # fmt: skip
    assert drafted["tpot_s"]["mean"]["value"] < 0.7 * found["tpot_s"]["mean"]["value"]


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
        ("--scheduling-policy priority --scheduler static", "before continuous batching"),
        ("--long-prefill-token-threshold 512 --reservation max", "before paging"),
        ("--scheduling-policy priority --preemption-mode swap --swap-space 4", "V1 computes anew"),
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
