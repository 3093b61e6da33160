"""The printed command: pasted back, it gives the same answer."""

import shlex
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Cli

# Flags that an engine's command line can say. What it cannot (a price, a context) stands beside it both times.
COMMON = {
    "--max-model-len": ["4096", "8k"],
    "--max-num-seqs": ["16", "300"],
    "--max-num-batched-tokens": ["2048"],
    "--gpu-memory-utilization": ["0.8", "0.95"],
    "--dtype": ["fp16"],
    "--kv-cache-dtype": ["fp8"],
    "--num-speculative-tokens": ["2"],
}
OWN = {
    "vllm": {
        "-tp": ["2", "8"],
        "-pp": ["2"],
        "-dp": ["2"],
        "--block-size": ["32"],
        "--quantization": ["fp8"],
        "--kv-memory": ["9GiB"],
        "--cpu-offload-gb": ["2"],
        "--max-loras": ["2"],
        "--enforce-eager": [None],
        "--no-enable-prefix-caching": [None],
        "--engine-version": ["0.19", "0.10.2"],
    },
    "sglang": {
        "-tp": ["2"],
        "-dp": ["2"],
        "--block-size": ["64"],
        "--quantization": ["fp8"],
        "--enforce-eager": [None],
    },
    "trtllm": {"-tp": ["2"], "-pp": ["2"], "--engine-version": ["1.3"]},
}
ALIASES = ("serve", "memory_fraction_of", "speculation", "context_tokens", "slots")  # what a pasted command adds


@st.composite
def flags(draw: st.DrawFn) -> list[str]:
    engine = draw(st.sampled_from(sorted(OWN)))
    words = ["--engine", engine]
    for flag, values in {**COMMON, **OWN[engine]}.items():
        if draw(st.booleans()):
            value = draw(st.sampled_from(values))
            words += [flag] if value is None else [flag, value]
    return words


def answer(cli: Cli, words: list[str]) -> Any:
    ran = cli("size --gpu h100-sxm --price 2.5 --json", *words)
    return ran.json if ran.code == 0 else None


def inputs_of(answered: Any) -> dict[str, Any]:
    return {name: value for name, value in answered["inputs"].items() if name not in ALIASES}


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(words=flags(), model=st.sampled_from(["llama-3-8b", "gpt-oss-20b", "gemma-3-27b"]))
def test_the_command_read_back_gives_the_same_answer(cli: Cli, words: list[str], model: str) -> None:
    typed = answer(cli, [model, *words])
    if typed is None:  # a layout that the model does not divide by, a type that it is not stored in
        return
    unsaid = [one for one in typed["assumptions"] if one["name"] == "command"]
    beside = ["--engine-version", words[words.index("--engine-version") + 1]] if "--engine-version" in words else []
    pasted = answer(cli, [*beside, "--serve", typed["result"]["command"]])
    if unsaid:
        return  # named in the answer: the rest is in tests/catalog/serve/test_emit.py
    assert pasted["result"] == typed["result"]
    assert inputs_of(pasted) == inputs_of(typed)
    assert pasted["assumptions"] == typed["assumptions"]


@pytest.mark.parametrize("line", ["size llama-3-70b -tp 4 --gpu h100-sxm --kv-cache-dtype fp8"])
def test_the_page_has_it_as_a_shell_takes_it(cli: Cli, line: str) -> None:
    out = cli(line).out
    block = out.split("The command\n")[1].split("\n\n")[0].replace("\\\n", " ")
    want = "vllm serve meta-llama/Meta-Llama-3-70B --tensor-parallel-size 4 --kv-cache-dtype fp8"
    assert shlex.split(block) == shlex.split(want)


def test_the_lessons_have_none(cli: Cli) -> None:
    ran = cli("size llama-3-8b --gpu h100-sxm --engine ideal --json")
    assert ran.result["command"] is None


def test_what_an_engine_cannot_say_is_named(cli: Cli) -> None:
    ran = cli("size llama-3-8b --gpu h100-sxm --overhead 3GiB --json")
    said = [one["why"] for one in ran.json["assumptions"] if one["name"] == "command"]
    assert said == ["vLLM has no flag for --overhead"]
