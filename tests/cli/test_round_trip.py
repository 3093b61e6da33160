"""The printed command, read back with `--serve`, gives the same JSON: random deployments of every engine."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.cli.conftest import Cli

Words = tuple[str, ...]
NONE: Words = ()


def one_of(flag: str, *values: str) -> st.SearchStrategy[Words]:
    """A flag with one of its values, or nothing."""
    return st.sampled_from([NONE, *((flag, value) for value in values)])


def switch(*flags: str) -> st.SearchStrategy[Words]:
    return st.sampled_from([NONE, *((flag,) for flag in flags)])


SHARED = [
    one_of("-tp", "1", "2", "4"), one_of("--max-model-len", "4096", "8K", "auto"), one_of("--max-num-seqs", "300"),
    one_of("--max-num-batched-tokens", "2048", "8192"), one_of("--price", "2.5"), one_of("--overhead", "3GiB"),
    one_of("--kv-memory", "8GiB"), one_of("--num-speculative-tokens", "1", "4"), one_of("--gpus-per-node", "2", "8"),
    switch("--enable-prefix-caching", "--no-enable-prefix-caching"),
]  # fmt: skip
PAGED = [
    *SHARED, one_of("-pp", "2"), one_of("-dp", "2"), switch("--enable-expert-parallel"), switch("--enforce-eager"),
    one_of("--gpu-memory-utilization", "0.5", "0.85"), one_of("--kv-cache-dtype", "fp8", "bf16"),
    one_of("--dtype", "fp16"), one_of("-q", "fp8", "awq"), one_of("--max-loras", "2"), one_of("--cpu-offload-gb", "4"),
    one_of("--block-size", "32"), one_of("--mamba-ssm-cache-dtype", "fp32"), one_of("--swap-space", "4"),
    one_of("--limit-mm-per-prompt", "image=0,video=2"), one_of("--draft", "llama-3.2-1b", "eagle3", "mtp"),
    one_of("--network-bandwidth", "50GB"),
]  # fmt: skip
OWN = {
    "vllm": [*PAGED, one_of("--engine-version", "0.9.2", "0.19.1"), one_of("--num-gpu-blocks-override", "5000"),
             switch("--offline"), one_of("--num-redundant-experts", "8")],
    "sglang": [*PAGED, one_of("--engine-version", "0.5.2"), one_of("--max-mamba-cache-size", "8"),
               switch("--enable-dp-attention"), one_of("--scheduler-recv-interval", "5")],
    "trtllm": [*PAGED, one_of("--engine-version", "1.0"), switch("--enable-chunked-prefill")],
    "llamacpp": [*SHARED, one_of("--engine-version", "b6000"), one_of("-c", "8192", "40000"), one_of("-np", "1", "8"),
                 one_of("-ngl", "10", "99"), one_of("--n-cpu-moe", "4"), one_of("--ubatch-size", "256"),
                 one_of("--flash-attn", "on", "off"), one_of("--backend", "vulkan"), one_of("-q", "Q4_K_M", "q8_0"),
                 one_of("--kv-cache-dtype", "f16", "q8_0,q4_0")],
}  # fmt: skip
MODELS = ("llama-3.1-8b", "qwen3-30b-a3b", "gemma-3-12b", "deepseek-v3")


@st.composite
def questions(draw: st.DrawFn) -> tuple[Words, Words]:
    """A model with its deployment, and what has to be said beside a command: the GPU and what it costs."""
    engine = draw(st.sampled_from(sorted(OWN)))
    flags = [draw(words) for words in draw(st.lists(st.sampled_from(OWN[engine]), max_size=6, unique_by=id))]
    said = tuple(word for words in flags for word in words)
    price = next((words for words in flags if words[:1] == ("--price",)), NONE)
    gpu = draw(st.sampled_from(["h200-sxm", "rtx4090"]))
    beside = ("--gpu", gpu, *price)
    return (draw(st.sampled_from(MODELS)), "--engine", engine, "--gpu", gpu, *said), beside


def answer(cli: Cli, *words: str) -> dict[str, Any] | None:
    ran = cli("size --json", *words)
    return json.loads(ran.out) if ran.code == 0 else None


@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(questions())
def test_a_printed_command_gives_the_same_answer(cli: Cli, question: tuple[Words, Words]) -> None:
    asked, beside = question
    first = answer(cli, *asked)
    if first is None:
        return  # these settings do not go together
    second = answer(cli, *beside, "--serve", first["result"]["command"])
    assert second is not None
    assert second["inputs"].pop("serve")["unknown"] == []
    assert second == first


FILES = [
    ("/models/Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b", "Q4_K_M"),
    ("google_gemma-3-12b-it-IQ4_XS.gguf", "gemma-3-12b", "IQ4_XS"),
    (r"C:\models\Qwen3-8B-UD-Q5_K_XL.gguf", "qwen3-8b", "Q5_K_M"),
]


@pytest.mark.parametrize("file, model, quantization", FILES)
def test_a_file_that_is_not_here_is_known_by_its_name(cli: Cli, file: str, model: str, quantization: str) -> None:
    ran = cli("size --gpu rtx4090 --json --serve", f"llama-server -m {file} -c 8192")
    assert ran.json["inputs"]["model"] == model
    assert ran.json["inputs"]["quantization"] == quantization
    assert {"model", "quantization"} <= {one["name"] for one in ran.json["assumptions"]}
    assert "not on this machine" in ran.err


def test_a_file_lends_its_quantization_to_a_model_beside_it(cli: Cli) -> None:
    line = "llama-server -m /models/mine-Q8_0.gguf -c 8192"
    assert cli("size llama-3-8b --gpu rtx4090 --json --serve", line).json["inputs"]["quantization"] == "Q8_0"
    own = cli("size llama-3-8b -q q4_0 --gpu rtx4090 --json --serve", line)
    assert own.json["inputs"]["quantization"] == "q4_0"
