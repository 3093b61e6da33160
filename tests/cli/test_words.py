"""The plain reader of command lines and Typer read the same."""

from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.cli.app import COMMANDS, _by_typer
from kvcalc.cli.options import Command

COMMAND_OF: dict[str, Command] = {name: import_module(f"kvcalc.cli.{name}").command for name in COMMANDS}
WORDS = st.sampled_from(["llama-3-8b", "8", "8k", "50GB", "a b", "x=y", "ü", "-", "0", "None", "./a.toml", "[]"])


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    name = draw(st.sampled_from(sorted(COMMANDS)))
    command = COMMAND_OF[name]
    words = draw(st.lists(WORDS.filter(lambda word: word != "-"), max_size=2))
    for flag in draw(st.lists(st.sampled_from(list(command.flags)), max_size=4)):
        spelling = draw(st.sampled_from([one for names in flag.names for one in names.split("/")]))
        if draw(st.booleans()):
            spelling = spelling[:3] + spelling[3:].replace("-", "_")
        value = draw(WORDS)
        if flag.kind in ("switch", "bool"):
            words.append(spelling)
        elif draw(st.booleans()) and spelling.startswith("--"):
            words.append(f"{spelling}={value}")
        else:
            words += [spelling, value]
        words += draw(st.lists(WORDS.filter(lambda word: word != "-"), max_size=1))
    return [name, *words]


@given(line=lines())
def test_a_plain_line_means_what_typer_reads(line: list[str]) -> None:
    called: list[tuple[dict[str, Any], dict[str, Any]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Command, "call", lambda self, values, flags: called.append((values, flags)))
        plain = COMMAND_OF[line[0]].plainly(line[1:])
        if plain is None:
            return
        plain()
        _by_typer(line)
    (values, flags), (typers, typers_flags) = called
    unset = {name: value for name, value in typers.items() if name not in values}
    assert flags == typers_flags
    assert values == {name: value for name, value in typers.items() if name in values}
    parameters = COMMAND_OF[line[0]].function.__kwdefaults__ or {}
    assert all(value in (None, "-", "budget.toml", *parameters.values()) for value in unset.values())


@pytest.mark.parametrize("line", [
    "size llama-3-8b --gpu h100-sxm --json",
    "size llama-3-8b --gpu=h100-sxm -tp 2 --max_model_len 8k -o -",
    "compare llama-3-8b qwen3-8b --gpu l4 --gpu l40s",
    "kv llama-3-8b gemma-3-27b --context 2k --context 8k",
    "speculate llama-3-8b --gpu l4 --acceptance 0.8 --acceptance 0.7 --tree",
    "check", "check budget.toml --format github", "diagnose vllm.log --model qwen3-8b", "gpus", "models x",
])  # fmt: skip
def test_everyday_lines_are_plain(line: str) -> None:
    name, *words = line.split()
    assert COMMAND_OF[name].plainly(words) is not None


@pytest.mark.parametrize("line", [
    "size", "size a b", "size llama-3-8b --gpu", "size llama-3-8b --gpu --json", "size llama-3-8b --no-such",
    "size --help", "size -h", "size llama-3-8b --gpu l4 --gpu l40s", "size llama-3-8b -tp=2", "size -- llama-3-8b",
    "size llama-3-8b --json=yes", "size llama-3-8b --price -1", "size -", "kv",
])  # fmt: skip
def test_what_is_not_plain_is_left_to_typer(line: str) -> None:
    name, *words = line.split()
    assert COMMAND_OF[name].plainly(words) is None
