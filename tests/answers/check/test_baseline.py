"""What has changed since an answer that was kept: as a table, as a comment, as annotations on the limit's own line."""

import json
from pathlib import Path

import pytest

from kvcalc.answers.baseline import differs
from tests.cli.conftest import Cli, assert_refused, cli  # noqa: F401

FILE = """schema = "kvcalc.budget/1"

[[deployment]]
name = "chat"
model = "llama-3-8b"
gpu = "l40s"
max-model-len = "8K"

[deployment.limit]
fits = true
min-batch = 20
max-gpus = 1
"""
MORE = FILE[FILE.index("\n[[") :].replace('"chat"', '"{name}"')


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


def test_nothing_has_changed(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    budget, kept = write(tmp_path / "budget.toml", FILE), str(tmp_path / "kept.json")
    assert cli("check", budget, "--json", "-o", kept).code == 0
    ran = cli("check --baseline", kept, budget)
    assert ran.code == 0
    assert "Nothing has changed since" in ran.out


def test_what_came_went_and_moved(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    """Twice the cache: by hand, 8 bits instead of 16 hold twice as many sequences."""
    kept, budget = str(tmp_path / "kept.json"), tmp_path / "budget.toml"
    cli("check", write(budget, FILE + MORE.format(name="old")), "--json", "-o", kept)
    changed = FILE.replace("max-model-len", 'kv-cache-dtype = "fp8"\nmax-model-len').replace("max-gpus = 1\n", "")
    changed = changed.replace("min-batch = 20", "min-batch = 2000\nmin-sequences = 1")
    ran = cli("check --json --baseline", kept, write(budget, changed + MORE.format(name="new")))
    assert ran.code == 1
    found = ran.result["baseline"]["changes"]
    marks = {(one["mark"], one["of"], one["figure"]) for one in found}
    assert marks == {
        ("~", "chat", "min-batch"), ("+", "chat", "min-sequences"), ("-", "chat", "max-gpus"),
        ("+", "new", None), ("-", "old", None),
    }  # fmt: skip
    moved = next(one for one in found if one["mark"] == "~")
    assert moved["after"] == pytest.approx(2 * moved["before"], rel=0.05)
    assert (moved["passed_before"], moved["passed_after"]) == (True, False)
    lines = changed.splitlines()
    assert lines[moved["line"] - 1].startswith("min-batch")


def test_signs_in_a_table_a_comment_and_annotations(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    kept, budget = str(tmp_path / "kept.json"), tmp_path / "budget.toml"
    cli("check", write(budget, FILE), "--json", "-o", kept)
    write(budget, FILE.replace("max-gpus = 1\n", "min-tokens = 1000\n").replace("min-batch = 20", "min-batch = 2000"))
    table, comment = (
        cli("check --baseline", kept, str(budget)).out,
        cli("check --format md --baseline", kept, str(budget)),
    )
    assert "~  chat" in table
    assert "BROKEN" in table
    assert "−  chat" in table
    assert "| + | chat | min-tokens |" in comment.out
    notes = cli("check --format github --baseline", kept, str(budget)).out.splitlines()
    lines = budget.read_text().splitlines()
    at = {name: lines.index(line) + 1 for line in lines for name in [line.partition(" ")[0]] if line.startswith("min")}
    assert any(one.startswith(f"::error file={budget},line={at['min-batch']},") for one in notes)
    assert any(one.startswith(f"::warning file={budget},line={at['min-batch']},") for one in notes)
    assert any(one.startswith(f"::notice file={budget},line={at['min-tokens']},") for one in notes)


def test_compare(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    kept = str(tmp_path / "kept.json")
    line = "compare llama-3-8b --context 2k --gpu l4 --gpu l40s"
    cli(f"{line} --json -o", kept)
    assert cli(f"{line} --json --baseline", kept).result["baseline"]["changes"] == []
    found = cli(f"{line.replace('--gpu l4 ', '--gpu h100-sxm ')} -dp 2 --json --baseline", kept).result["baseline"]
    whole = {(one["mark"], one["of"]) for one in found["changes"] if one["figure"] is None}
    assert whole == {("+", "h100-sxm"), ("-", "l4")}
    speed = next(one for one in found["changes"] if one["figure"] == "output_tokens_per_s")
    assert speed["after"] == pytest.approx(2 * speed["before"])


def test_a_file_that_is_no_baseline_is_refused(cli: Cli, tmp_path: Path) -> None:  # noqa: F811
    budget = write(tmp_path / "budget.toml", FILE)
    for text in ("{}", "[]", "no JSON", json.dumps({"schema": "kvcalc.size/2", "result": {}})):
        assert_refused(cli("check --baseline", write(tmp_path / "other.json", text), budget))
    assert_refused(cli("check --baseline", str(tmp_path / "none.json"), budget))


def test_rounding_is_no_change() -> None:
    assert not differs(0.1 + 0.2, 0.3)
    assert differs(1.0, 1.000001)
    assert differs(None, False)
    assert differs(1, True)
