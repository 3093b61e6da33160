"""What a step takes for granted is said."""

import json

import pytest

from kvcalc.answers.question import ask
from kvcalc.answers.size.answer import size
from kvcalc.answers.step.answer import step
from kvcalc.cli.app import run


def names(model: str, **flags: str) -> set[str]:
    report = step(ask(model, {"gpu": "h100-sxm", "batch": "8", "context": "2048", **flags}))
    found = [one.name for one in report.assumptions]
    assert len(found) == len(set(found))
    return set(found)


@pytest.mark.parametrize("model, engine, said", [
    ("gpt-oss-20b", "vllm", True),
    ("gpt-oss-20b", "ideal", False),  # the lessons' step reads every expert
    ("llama-3-8b", "vllm", False),
])  # fmt: skip
def test_woken_experts(model: str, engine: str, said: bool) -> None:
    assert ("experts woken" in names(model, engine=engine)) is said


@pytest.mark.parametrize("gpu, flags, said", [
    ("mi300x", {}, {"range of decode", "engine constants"}),
    ("h100-sxm", {"enforce_eager": True}, {"range of decode"}),
    ("h100-sxm", {}, set()),
    ("mi300x", {"engine": "ideal"}, set()),
])  # fmt: skip
def test_what_is_a_judgement_is_said(gpu: str, flags: dict[str, object], said: set[str]) -> None:
    report = size(ask("llama-3-8b", {"gpu": gpu, **flags}))
    assert {one.name for one in report.assumptions} & {"range of decode", "engine constants"} == said
    assert all("by hand" in one.why for one in report.assumptions if one.name in said)


def test_a_layout_that_leaves_the_node() -> None:
    assert "nodes" in names("llama-3-8b", tensor_parallel_size="8", pipeline_parallel_size="2")
    assert "nodes" not in names("llama-3-8b", tensor_parallel_size="8")


@pytest.mark.parametrize("command", [
    "size llama-2-7b --gpu h100-sxm --context 5000",
    "kv llama-2-7b --context 5000",
    "step llama-2-7b --gpu h100-sxm --batch 4 --context 5000",
    "curve llama-2-7b --gpu h100-sxm --batch 4 --context 5000",
    "compare llama-2-7b --gpu h100-sxm --gpu l40s --batch 4 --context 5000",
    "speculate llama-2-7b --gpu h100-sxm --draft ngram --acceptance 0.5 --context 5000",
    "prefill llama-2-7b --gpu h100-sxm --batch 4 --context 100 --isl 5000",
])  # fmt: skip
def test_a_length_above_the_models_maximum_is_a_warning_and_an_assumption(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run([*command.split(), "--json"]) == 0
    printed = capsys.readouterr()
    assert "5,000 is above the" in printed.err
    assert [one["why"] for one in json.loads(printed.out)["assumptions"] if one["value"] == 5000] != []


def test_what_the_times_leave_out() -> None:
    assert "cpu offload" in names("llama-3-8b", cpu_offload_bytes="10")
    assert "prefetched weights" in names("llama-3-8b", offload_group_size="8")
    assert "swap space" in names("llama-3-8b", swap_space_bytes="4")


@pytest.mark.parametrize("gpu, flags, said", [
    ("tpu-v6e", {}, True),
    ("tpu-v6e", {"overhead_bytes": "3GiB"}, False),
    ("tpu-v6e", {"engine": "ideal"}, False),
    ("h100-sxm", {}, False),
    ("mi300x", {}, False),
])  # fmt: skip
def test_memory_of_gpus_that_nobody_measured(gpu: str, flags: dict[str, str], said: bool) -> None:
    report = size(ask("qwen3-0.6b", {"gpu": gpu, **flags}))
    assert ("memory" in {one.name for one in report.assumptions}) is said


@pytest.mark.parametrize("engine, flags, said", [
    ("sglang", {}, True),
    ("sglang", {"max_num_batched_tokens": "4096"}, False),
    ("vllm", {}, True),  # of its own: what its server takes on this GPU
    ("ideal", {}, False),
])  # fmt: skip
def test_prompt_tokens_of_a_step(engine: str, flags: dict[str, str], said: bool) -> None:
    question = ask("llama-3-8b", {"gpu": "h100-sxm", "engine": engine, "input_len": "2k", "output_len": "256", **flags})
    found = [one.name for one in size(question, with_advice=False).assumptions]
    assert found.count("max_num_batched_tokens") == said
