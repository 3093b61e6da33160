"""Commands that the documentation shows run, those of files beside such files; its budgets keep their own limits.

Shown outputs, cog checks.
"""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kvcalc.cli.app import run
from kvcalc.cli.check import command
from tests.cli.conftest import Cli, cli  # noqa: F401

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
GENERATED = re.compile(r"<!-- \[\[\[cog.*?\[\[\[end\]\]\] -->", re.DOTALL)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# Files and ids of the reader's, other programs, a GPU, and ways of writing that stand for others.
ELSEWHERE = re.compile(r"[|<>$*]|\.\.\.|/|\.log|\.toml|\.gguf|\.json|\.csv|\.npy|-o |MODEL|FILE|COMMAND|GPU|calibrate|"
                       r"kvcalc run|kvcalc check|--ray|--trace|--help|--install|--version|diagnose")  # fmt: skip
CONTINUED = re.compile(r"\\\n\s*")


def typed() -> Iterator[str]:
    """Every line that a page shows to be typed, in one."""
    for page in PAGES:
        for kind, text in BLOCK.findall(GENERATED.sub("", page.read_text(encoding="utf-8"))):
            if kind not in ("toml", "python", "json", "yaml", "text"):
                yield from (line.removeprefix("$ ") for line in CONTINUED.sub(" ", text).splitlines())


def shown() -> list[str]:
    """Every line of a block that is a command which can run here."""
    commands = (line.partition("  #")[0].strip() for line in typed())
    return list(dict.fromkeys(one for one in commands if one.startswith("kvcalc ") and not ELSEWHERE.search(one)))


@pytest.mark.parametrize("command", shown())
def test_shown_commands_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    words = shlex.split(re.sub(r" {3,}.*", "", command))
    assert run(words[1:]) in (0, 1)


def budgets() -> list[tuple[str, str]]:
    """Every budget that a page or the help shows."""
    found = []
    for page in PAGES:
        for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
            if kind == "toml" and "[deployment.limit]" in text:
                whole = text if "kvcalc.budget/1" in text else f'schema = "kvcalc.budget/1"\n{text}'
                found.append((str(page.relative_to(ROOT)), whole))
    shown = ROOT / "docs" / "how-to" / "budget.toml"
    _, schema, said = (command.function.__doc__ or "").partition('schema = "kvcalc.budget/1"')
    return [*found, (shown.name, shown.read_text(encoding="utf-8")), ("check --help", schema + said)]


@pytest.mark.parametrize("page, text", budgets(), ids=[page for page, _ in budgets()])
def test_shown_budgets_keep_their_limits(cli: Cli, tmp_path: Path, page: str, text: str) -> None:  # noqa: F811
    path = tmp_path / "budget.toml"
    path.write_text(text)
    ran = cli(f"check {path} --json")
    assert ran.code == 0, ran.out + ran.err


# Of pages whose commands build on files: what each line leaves is there for the next. Programs beside are left out.
OF_FILES = re.compile(r"kvcalc (check|compare|diagnose|kv|curve|step|size|calibrate --from)\b")
BESIDE = re.compile(r"\s*(\| *jq .*|>>? *\S+|-o \"\$GITHUB_STEP_SUMMARY\")$")
DRAWN = re.compile(r"-o \S+\.(svg|png|html)|my-machine")
LOG = "INFO 01-01 00:00:00 [gpu_worker.py:298] Available KV cache memory: 17.25 GiB\n"
BENCH = {
    "completed": 100, "duration": 19.24, "total_input_tokens": 100_000, "total_output_tokens": 25_000,
    "mean_ttft_ms": 90.0, "mean_tpot_ms": 12.0, "max_concurrency": 16, "model_id": "m",
}  # fmt: skip


def with_files() -> list[str]:
    found: dict[str, None] = {}
    for line in typed():
        command = BESIDE.sub("", line.partition("  #")[0].strip())
        if ELSEWHERE.search(line) and OF_FILES.match(command) and not DRAWN.search(command):
            found[command] = None
    return list(found)


def test_shown_commands_of_files_run(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    monkeypatch.chdir(tmp_path)
    (tmp_path / "budget.toml").write_text((ROOT / "docs" / "how-to" / "budget.toml").read_text(encoding="utf-8"))
    (tmp_path / "vllm.log").write_text(LOG)
    (tmp_path / "bench.json").write_text(json.dumps(BENCH))
    (tmp_path / "emulator.toml").write_text((ROOT / "model_cards" / "smollm2-135m.toml").read_text(encoding="utf-8"))
    lines = with_files()
    assert len(lines) >= 12
    for line in lines:
        assert run(shlex.split(line)[1:]) == 0, line
