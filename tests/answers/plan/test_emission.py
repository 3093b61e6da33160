"""What is printed starts the deployment that was found: pasted back, `size` gives the same figures."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401

LINE = "plan llama-3.1-8b --gpu l40s --isl 2k --osl 300 --users 60 --tpot 40ms -tp 1 -tp 2"


@pytest.mark.parametrize("form", ["vllm", "sglang", "trtllm", "llamacpp", "compose", "k8s"])
def test_read_back_it_gives_the_same_answer(cli: Cli, tmp_path: Path, form: str) -> None:  # noqa: F811
    file = tmp_path / "run"
    line = LINE.replace("llama-3.1-8b", "llama-3.1-8b -q q8_0") if form == "llamacpp" else LINE
    one = cli(f"{line} --emit {form} --json").result
    assert cli(f"{line} --emit {form} -o {file}").code == 0
    assert file.read_text() == one["emitted"]
    words = shlex.split(one["candidates"][0]["size"])
    load = f"--isl 2k --osl 300 --concurrency {one['candidates'][0]['concurrency']}"
    model = ("--gpu l40s",) if form != "llamacpp" else ("llama-3.1-8b --gpu l40s",)
    back = cli(f"size {model[0]} {load} --json --serve", file.read_text()).result["serving"]
    assert back == cli(" ".join(words[1:]) + " --json").result["serving"]


def test_an_engine_is_emitted_for_itself_only(cli: Cli) -> None:  # noqa: F811
    assert_refused(cli(f"{LINE} --engine vllm --emit sglang"))
    assert_refused(cli(f"{LINE} --emit docker"))


APART = "plan llama-3.1-70b-fp8 --gpu h200-sxm -tp 2 --isl 3000 --osl 500 --users 100 --ttft 2s --tpot 20ms"


@pytest.mark.parametrize("form", ["vllm", "sglang", "compose", "k8s"])
def test_separate_pools_have_a_command_each(cli: Cli, form: str) -> None:  # noqa: F811
    found = cli(f"{APART} --emit {form} --emit-pools --json").result
    text, one = found["emitted"], found["separate_pools"][0]
    roles = ("prefill", "decode") if form == "sglang" else ("kv_producer", "kv_consumer")
    assert [text.count(f"{role}\n") for role in roles] == [1, 1]
    back = cli("size --gpu h200-sxm --json --serve", text).json["inputs"]
    assert back["tensor_parallel_size"] == one["deployment"]["tensor_parallel_size"] == 2
    if form in ("compose", "k8s"):
        documents = list(yaml.safe_load_all(text))
        assert (
            _gpus_and_servers(documents)
            == {
                "compose": [["0", "1"], ["2", "3"]],
                "k8s": [one["prefill_replicas"], one["decode_replicas"]],
            }[form]
        )


def _gpus_and_servers(documents: list[Any]) -> list[Any]:
    """Of a compose file the GPUs of each service, which no two share; of a manifest the servers of each pool."""
    if len(documents) > 1:
        return [one["spec"]["replicas"] for one in documents if one["kind"] == "Deployment"]
    services = documents[0]["services"].values()
    return [one["deploy"]["resources"]["reservations"]["devices"][0]["device_ids"] for one in services]


def test_no_pools_are_emitted_where_none_are_cheaper(cli: Cli) -> None:  # noqa: F811
    assert_refused(cli(f"{APART} --emit-pools"))
    assert_refused(cli(f"{APART.replace('--users 100', '--users 1').replace('20ms', '99ms')} --emit k8s --emit-pools"))


@pytest.mark.parametrize("form", ["vllm", "compose"])
def test_drafts_and_their_acceptance_are_read_back(cli: Cli, form: str) -> None:  # noqa: F811
    drafts = "--draft eagle-3 --num-speculative-tokens 2 --acceptance 0.8 --acceptance 0.7"
    one = cli(f"{LINE} {drafts} --emit {form} --json").result
    first = one["candidates"][0]
    assert first["drafts"] == 2
    load = f"--isl 2k --osl 300 --concurrency {first['concurrency']}"
    back = cli(f"size --gpu l40s {load} --json --serve", one["emitted"]).result["serving"]
    assert back["tpot_s"] == first["tpot_s"]


def test_a_compose_file_is_of_one_machine(cli: Cli) -> None:  # noqa: F811
    """Two servers of two GPUs each, on machines of two: only Kubernetes has several."""
    small = f"{APART} --gpus-per-node 2 --emit-pools"
    ran = cli(f"{small} --emit compose")
    assert_refused(ran)
    assert "h200-sxm has 2 GPUs in one: 4 are asked" in ran.err
    assert "kind: Deployment" in cli(f"{small} --emit k8s").out
    two = cli("plan deepseek-v3 --gpu h100-sxm -tp 8 -pp 2 --isl 1k --osl 100 --users 8 --emit k8s")
    assert_refused(two)
    assert "a pod runs on one machine" in two.err


def test_amd_gpus_are_no_nvidia_devices(cli: Cli) -> None:  # noqa: F811
    line = LINE.replace("l40s", "mi300x")
    service = yaml.safe_load(cli(f"{line} --emit compose").out)["services"]["server"]
    assert service["devices"] == ["/dev/kfd", "/dev/dri"]
    assert "deploy" not in service
    assert "amd.com/gpu: 1" in cli(f"{line} --emit k8s --engine sglang").out
    assert_refused(cli(f"{line} --emit k8s --engine trtllm"))


@pytest.mark.parametrize("line", [
    "plan llama-3-8b --gpu l4 -tp 1 --isl 1k --osl 100 --users 3 --tpot 1ms",
    "plan llama-3-70b --gpu l4 -tp 1 --isl 1k --osl 9 --users 3",
])  # fmt: skip
def test_where_nothing_meets_the_targets_nothing_is_written(cli: Cli, tmp_path: Path, line: str) -> None:  # noqa: F811
    file = tmp_path / "run"
    assert_refused(cli(f"{line} --emit compose -o {file}"))
    assert not file.exists()
    assert cli(f"{line} --emit compose --json").result["emitted"] is None
