"""Inputs of absurd size are answered or refused in seconds, not worked on."""

import io
from pathlib import Path

import pytest

from kvcalc.catalog.files.toml import read_toml
from kvcalc.engines.logs.read import MOST_OF_A_LINE, bounded_lines
from kvcalc.errors import KvcalcError
from tests.cli.conftest import Cli, assert_refused


def test_a_prompt_of_a_thousand_million_steps_is_refused(cli: Cli) -> None:
    ran = cli("prefill llama-3-8b --gpu h100-sxm --isl 1000000000 --chunk 1")
    assert_refused(ran)
    assert "1,000,000,000 steps" in ran.err


def test_the_longest_prompt_is_answered_in_usual_chunks(cli: Cli) -> None:
    ran = cli("prefill llama-3-8b --gpu h100-sxm --isl 1000000 --batch 1 --context 1k --json")
    assert ran.code == 0, ran.err


@pytest.mark.parametrize("text", ["a" + ".a" * 20_000 + " = 1", "[" + ".".join(["a"] * 20_000) + "]"])
def test_a_key_of_thousands_of_parts_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "deep.toml"
    path.write_text(text)
    with pytest.raises(KvcalcError, match="more than 100 parts"):
        read_toml(path, "GPU spec")


def test_numbers_in_lists_are_no_parts_of_a_key(tmp_path: Path) -> None:
    path = tmp_path / "list.toml"
    path.write_text("a = [\n" + ", ".join(["0.5"] * 500) + "\n]")
    assert len(read_toml(path, "x")["a"]) == 500


def test_of_an_endless_line_the_beginning_is_read() -> None:
    found = list(bounded_lines(io.StringIO("x" * 10 * MOST_OF_A_LINE + "\nnext\n")))
    assert found[-1] == "next\n"
    assert sum(map(len, found)) < 1.1 * MOST_OF_A_LINE
