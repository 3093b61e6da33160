"""What is printed starts the deployment that was found: pasted back, `size` gives the same figures."""

import shlex
from pathlib import Path

import pytest

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
