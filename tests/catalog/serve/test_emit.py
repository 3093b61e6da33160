"""Printed commands: every flag exists in the version that is named, and reading one back gives the deployment."""

import json
import re
import shlex
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.serve.emit import Command, command_of
from kvcalc.catalog.serve.hardware import hardware
from kvcalc.catalog.serve.served import read_command
from kvcalc.catalog.serve.table import index
from kvcalc.catalog.serve.wrappers import Pool, compose, container_words, kubernetes
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment

VERSIONS: dict[str, list[str | None]] = {
    "vllm": [None, "0.7.3", "0.9", "0.11", "0.19.1", "0.33.0"],
    "sglang": [None, "0.4.3", "0.5.2", "0.5.9"],
    "trtllm": [None, "0.17", "1.2", "1.3"],
}
# Settings that each engine's command line has, or that a file of its own has.
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "tensor_parallel_size": st.sampled_from([1, 2, 4, 8]),
    "pipeline_parallel_size": st.sampled_from([1, 2]),
    "data_parallel_size": st.sampled_from([1, 2, 8]),
    "enable_expert_parallel": st.booleans(),
    "num_redundant_experts": st.sampled_from([0, 8]),
    "dtype": st.sampled_from(["auto", "bf16", "fp16"]),
    "quantization": st.sampled_from([None, "fp8", "awq"]),
    "kv_cache_dtype": st.sampled_from(["auto", "fp8", "nvfp4"]),
    "mamba_ssm_cache_dtype": st.sampled_from(["auto", "fp32"]),
    "block_size": st.sampled_from([None, 16, 64]),
    "max_model_len": st.one_of(st.none(), st.integers(1, 10**6)),
    "max_num_seqs": st.one_of(st.none(), st.integers(1, 2048)),
    "max_num_batched_tokens": st.one_of(st.none(), st.integers(1, 10**6)),
    "gpu_memory_utilization": st.one_of(st.none(), st.floats(0.01, 1).map(lambda share: round(share, 3))),
    "enable_prefix_caching": st.sampled_from([None, True, False]),
    "enforce_eager": st.booleans(),
    "max_cudagraph_capture_size": st.sampled_from([None, 8]),
    "num_speculative_tokens": st.integers(0, 5),
    "max_loras": st.integers(0, 4),
    "kv_memory_bytes": st.one_of(st.none(), st.integers(1, 10**12)),
    "offload_group_size": st.sampled_from([0, 8]),
    "offload_num_in_group": st.sampled_from([1, 2]),
    "offload_prefetch_step": st.sampled_from([1, 3]),
    "cpu_offload_bytes": st.integers(0, 4).map(lambda gib: gib << 30),
    "overhead_bytes": st.sampled_from([None, 3 << 30]),
}


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    engine = draw(st.sampled_from(sorted(VERSIONS)))
    version = draw(st.sampled_from(VERSIONS[engine]))
    fields = draw(st.fixed_dictionaries({}, optional=FIELDS))
    return checked(Deployment, {"engine": engine, "engine_version": version, **fields})


def back(text: str, command: Command, deployment: Deployment) -> Deployment:
    """The deployment that a printed command says, with what it cannot say beside it."""
    served = read_command(text)
    assert served.engine == deployment.engine
    assert served.model == command.model
    assert not served.unknown
    beside = {name: getattr(deployment, name) for name in command.unsaid}
    fields = {name: value for name, value in served.fields.items() if name in vars(deployment)}
    return checked(
        Deployment, {"engine": served.engine, "engine_version": deployment.engine_version, **fields, **beside}
    )


@given(deployments())
def test_a_printed_command_reads_back_as_the_deployment(deployment: Deployment) -> None:
    command = command_of("some/model", deployment)
    assert command is not None
    assert back(command.line, command, deployment) == deployment


def docker(command: Command, image: str) -> str:
    """One line for a shell, as people paste it."""
    before = ["docker", "run", "--gpus", "all", "--ipc=host", "-p", "8000:8000", "-v", "hub:/root/.cache/huggingface"]
    return shlex.join([*before, image, *container_words(command)])


@given(deployments())
def test_so_does_one_in_a_container(deployment: Deployment) -> None:
    command = command_of("some/model", deployment)
    assert command is not None
    on = hardware(deployment, load_gpu("h100-sxm"))
    for text in (docker(command, on.image), compose(command, 4, on), kubernetes(Pool("server", command, 2), 4, on)):
        assert back(text, command, deployment) == deployment
        version = read_command(text).version
        assert version == deployment.engine_version


@given(deployments())
def test_every_flag_exists_in_the_version(deployment: Deployment) -> None:
    command = command_of("some/model", deployment)
    assert command is not None
    known = index(deployment.engine)
    for word in command.arguments:
        if not re.match(r"--?[a-z]", word):
            continue
        flag = known.get(word) or known["--" + word.removeprefix("--no-")]
        here = numbers(deployment.engine_version or "99")
        assert flag.since is None or here >= numbers(flag.since), (word, deployment.engine_version)
        assert flag.until is None or here[:2] <= numbers(flag.until)[:2], (word, deployment.engine_version)


def numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


# Which of them is right was looked up in vllm/engine/arg_utils.py of 0.7, 0.11 and a copy after 0.33.
BY_VERSION = [
    ("0.11", {"num_speculative_tokens": 2}, "--speculative-config"),
    ("0.11", {"num_redundant_experts": 4}, "--eplb-config"),
    ("0.9.2", {"num_redundant_experts": 4}, "--num-redundant-experts 4"),
    ("0.11", {"swap_space_bytes": 4 << 30}, "--swap-space 4"),
]


@pytest.mark.parametrize("version, fields, flag", BY_VERSION)
def test_flags_come_and_go_with_versions(version: str, fields: dict[str, Any], flag: str) -> None:
    command = command_of("m", Deployment(engine_version=version, **fields))
    assert command is not None
    assert flag in command.line


def test_what_a_version_cannot_say_is_named() -> None:
    command = command_of("m", Deployment(engine_version="0.7.3", kv_memory_bytes=10**9, overhead_bytes=1))
    assert command is not None
    assert command.line == "vllm serve m"
    assert command.unsaid == ("kv_memory_bytes", "overhead_bytes")


def test_the_lessons_have_no_command() -> None:
    assert command_of("m", Deployment(engine="ideal")) is None


def test_json_in_a_command_is_json() -> None:
    command = command_of("m", Deployment(num_speculative_tokens=2), own_drafter=True)
    assert command is not None
    said = command.words[command.words.index("--speculative-config") + 1]
    assert json.loads(said) == {"method": "mtp", "num_speculative_tokens": 2}
