"""Help and wrong usage: what a tired user meets first."""

import os
import re
import shlex
import subprocess
import sys
from importlib import import_module

import pytest

from kvcalc.cli.app import COMMANDS, GROUPS, run
from kvcalc.cli.typer_app import MAIN_HELP
from tests.cli.conftest import Cli, assert_refused

EXAMPLE = re.compile(r"^ +(kvcalc .*?)(?: {2,}.*)?$", re.MULTILINE)


def help_of(command: str) -> str:
    return str(import_module(f"kvcalc.cli.{command}").command.function.__doc__)


HELP = {"": MAIN_HELP, **{command: help_of(command) for command in COMMANDS}}
# Examples that name files or a Hub id (the network), or that measure the machine.
ELSEWHERE = re.compile(r"[/|<>]|\.log|\.toml|kvcalc (check\b|calibrate|run )")
EXAMPLES = [
    line for text in HELP.values() for line in EXAMPLE.findall(text) if not ELSEWHERE.search(line.split(" -o ")[0])
]


def test_every_command_shows_an_example() -> None:
    assert [command for command, text in HELP.items() if not EXAMPLE.search(text)] == []


@pytest.mark.parametrize("command", HELP)
def test_help_fits_80_columns(cli: Cli, command: str) -> None:
    ran = cli(f"{command} --help")
    assert ran.code == 0
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []


def test_commands_stand_in_groups(cli: Cli) -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert len(set(grouped)) == len(grouped)
    assert set(COMMANDS) <= set(grouped)
    text = cli("--help").out
    assert all(f"\n  {name} " in text for name in COMMANDS)
    assert text.index("Size:") < text.index("Speed:") < text.index("Catalog:")


def test_flags_stand_in_groups(cli: Cli) -> None:
    text = cli("size --help").out
    headings = re.findall(r"^(\w[\w.]*):$", text, re.MULTILINE)
    assert headings[:4] == ["Arguments", "Where", "Workload", "Layout"]
    assert text.index("\nMemory:") < text.index("--kv-memory SIZE") < text.index("\nCost:")


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_in_help_answer(line: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(str(tmp_path))
    assert run(shlex.split(line)[1:]) == 0


def test_nothing_asked_shows_help_and_is_no_success(cli: Cli) -> None:
    ran = cli("")
    assert ran.code == 2
    assert ran.out == ""
    assert ran.err.startswith("Usage: kvcalc ")


@pytest.mark.parametrize(
    "line, hint",
    [
        ("sise llama-3-8b", "did you mean `kvcalc size`? `kvcalc --help` lists the commands"),
        ("zzz llama-3-8b", "`kvcalc --help` lists the commands"),
        ("size llama-3-8b --gpu", "`kvcalc size --help` shows what it takes"),
        ("size", "`kvcalc size --help` shows what it takes"),
    ],
)
def test_the_hint_fits_the_mistake(cli: Cli, line: str, hint: str) -> None:
    ran = cli(line)
    assert_refused(ran)
    assert ran.err.splitlines()[1] == f"hint: {hint}"


@pytest.mark.parametrize("again", ["--gpu l40s", "--gpu=l40s"])
def test_a_flag_given_twice_is_not_silently_dropped(cli: Cli, again: str) -> None:
    assert_refused(cli(f"size llama-3-8b --gpu h100-sxm {again}"))
    assert_refused(cli(f"step llama-3-8b --gpu h100-sxm -tp 1 --tensor-parallel-size 2 {again}"))


def test_a_swept_flag_may_be_given_twice(cli: Cli) -> None:
    assert cli("compare llama-3-8b --gpu h100-sxm --gpu l40s").code == 0


@pytest.mark.parametrize(
    "words, position, offered",
    [
        ("kvcalc s", 1, {"size", "step", "speculate", "simulate"}),
        ("kvcalc size llama-3-8b --gpu h100-s", 4, {"h100-sxm"}),
        ("kvcalc kv deepseek-v3 deepseek-v3.", 3, {"deepseek-v3.1", "deepseek-v3.2"}),
        ("kvcalc models llama-3-7", 2, {"llama-3-70b"}),
        ("kvcalc gpus h200-", 2, {"h200-nvl", "h200-sxm"}),
        ("kvcalc size llama-3-8b --engine ", 4, {"ideal", "vllm", "sglang", "trtllm", "llamacpp"}),
        ("kvcalc step llama-3-8b --kv-cache-dtype nv", 4, {"nvfp4"}),
        ("kvcalc simulate llama-3-8b --scheduler c", 4, {"continuous"}),
        ("kvcalc size llama-3-8b --batch ", 4, set()),
    ],
)
def test_the_shell_completes(words: str, position: int, offered: set[str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "kvcalc"],
        env={**os.environ, "_KVCALC_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(position)},
        capture_output=True,
        text=True,
    )
    assert set(ran.stdout.split()) == offered


@pytest.mark.parametrize("flag", ["-tp=2", "-tp 2", "--tensor-parallel-size=2", "--tensor_parallel_size 2"])
def test_flags_are_spelled_as_engines_take_them(cli: Cli, flag: str) -> None:
    ran = cli(f"size llama-3-8b --gpu h100-sxm --json {flag}")
    assert ran.json["inputs"]["tensor_parallel_size"] == 2


def test_a_flag_given_twice_in_two_spellings_is_given_twice(cli: Cli) -> None:
    ran = cli("size llama-3-8b --gpu h100-sxm --max-model-len 4K --max_model_len 8K")
    assert_refused(ran)
    assert "given twice" in ran.err
