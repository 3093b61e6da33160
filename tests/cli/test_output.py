"""Formats, files, pipes, colour and interruption."""

import csv
import io
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kvcalc.results.base import schema_name
from tests.cli.conftest import Cli, assert_refused

SIZE = "size llama-3-8b --gpu h100-sxm --context 2048 --price 2"
COMMANDS = [
    SIZE,
    "size smollm2-135m",
    "kv llama-3-8b deepseek-v3",
    "kv gpt-oss-120b --engine vllm",
    "kv deepseek-v4-flash-nvfp4-fp8",
    "step llama-3-8b --gpu h100-sxm --batch 8 --context 2048",
    "step deepseek-v3 --gpu h200-sxm -tp 8 --batch 8 --context 2048",
    "curve llama-3-8b --gpu h100-sxm --context 2048",
    "curve llama-3-8b --gpu h100-sxm --gpu jetson-agx-orin-64 --tpot 50ms",
    "compare llama-3-8b --gpu h100-sxm --gpu l40s",
    "compare llama-3-8b --gpu h100-sxm --gpu l40s --isl 2k --osl 256 --concurrency 8 --concurrency 64",
    "compare llama-3-70b --gpu h100-sxm -tp 2 -tp 3 --kv-cache-dtype bf16 --kv-cache-dtype fp8",
    "compare llama-3-8b deepseek-v3 --gpu h100-sxm --gpu h200-sxm -tp 8 --kv-cache-dtype fp8 --kv-cache-dtype bf16",
    "size llama-3-70b --gpu apple-m4-max",
    "size llama-3-70b --gpu h100-sxm",
    "prefill llama-3-8b --gpu h100-sxm --batch 8 --context 2048 --osl 256",
    "speculate llama-3-8b --gpu h100-sxm --draft llama-3.2-1b --context 2048",
    "speculate llama-3-70b --gpu h100-sxm -tp 4 --draft eagle-2 --tree --batch 64",
    "models",
    "models llama-3-8b",
    "gpus",
    "gpus h100-sxm",
]


def kvcalc(*arguments: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kvcalc", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,  # type: ignore[call-overload]
    )


@pytest.mark.parametrize("line", COMMANDS)
def test_tables_fit_and_have_no_colour_on_a_pipe(cli: Cli, line: str) -> None:
    ran = cli(line)
    assert ran.code == 0
    assert "\x1b" not in ran.out
    assert [one for one in ran.out.splitlines() if len(one) > 80 and "://" not in one] == []


@pytest.mark.parametrize("line", COMMANDS)
def test_json_has_the_envelope(cli: Cli, line: str) -> None:
    envelope = cli(line + " --json").json
    assert envelope["schema"] == schema_name(line.split()[0])
    assert set(envelope) >= {"schema", "kvcalc", "inputs", "result", "assumptions", "sources"}
    for one in envelope["assumptions"]:
        assert set(one) == {"name", "value", "why"}


@pytest.mark.parametrize("line", COMMANDS)
def test_csv_is_a_table(cli: Cli, line: str) -> None:
    rows = list(csv.reader(io.StringIO(cli(line + " --format csv").out)))
    assert len(rows) >= 2
    assert {len(row) for row in rows} == {len(rows[0])}


@pytest.mark.parametrize("line", COMMANDS)
def test_markdown_has_whole_tables(cli: Cli, line: str) -> None:
    out = cli(line + " --format md").out
    assert out.startswith("## ")
    tables = [row for row in out.splitlines() if row.startswith("|")]
    assert tables


def test_a_file_is_written_whole(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "answer.json"
    path.write_text("old")
    ran = cli(f"{SIZE} --json -o", str(path))
    assert ran.out == ""
    assert path.read_text() == cli(f"{SIZE} --json").out
    assert list(tmp_path.iterdir()) == [path]


def test_dash_is_stdout(cli: Cli) -> None:
    assert cli(f"{SIZE} -o -").out == cli(SIZE).out


def test_a_bad_path_fails_before_the_work(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcalc.catalog.models.load_model", lambda name: pytest.fail("worked first"))
    assert_refused(cli(f"{SIZE} -o", str(tmp_path / "missing" / "x.json")))


def test_a_failure_leaves_the_old_file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "answer.txt"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    assert_refused(cli(f"{SIZE} -o", str(path)))
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_written_file_has_usual_permissions(cli: Cli, tmp_path: Path) -> None:
    path = tmp_path / "answer.txt"
    cli(f"{SIZE} -o", str(path))
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@pytest.mark.parametrize("name, expected", [("FORCE_COLOR", True), ("NO_COLOR", False)])
def test_colour_is_asked_for(cli: Cli, monkeypatch: pytest.MonkeyPatch, name: str, expected: bool) -> None:
    monkeypatch.setenv(name, "1")
    assert ("\x1b[" in cli(SIZE).out) is expected


def test_colour_never_reaches_a_file(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    cli(f"{SIZE} -o", str(tmp_path / "a.txt"))
    assert "\x1b[" not in (tmp_path / "a.txt").read_text()


def test_a_closed_pipe_is_no_error() -> None:
    process = kvcalc("gpus", env={**os.environ, "PYTHONUNBUFFERED": "1"})
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert process.wait(120) == 0
    assert [line for line in process.stderr.read().splitlines() if not line.startswith("warning:")] == []


def test_interruption_exits_with_130() -> None:
    script = (
        "import sys, time, kvcalc.answers.kv.answer as kv\n"
        "def wait(*a, **k):\n    print('waiting', file=sys.stderr, flush=True)\n    time.sleep(60)\n"
        "kv.kv = wait\n"
        "from kvcalc.cli.app import run\n"
        "sys.exit(run(['kv', 'llama-3-8b']))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert process.stderr.readline() == "waiting\n"
    time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "error: interrupted\n")


def test_interruption_while_it_starts_is_no_traceback() -> None:
    script = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, *rest):\n"
        "        if name == 'kvcalc.cli.app':\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from kvcalc.__main__ import main\n"
        "main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "error: interrupted\n")


def test_debug_shows_the_traceback() -> None:
    process = kvcalc("kv", "no-such-model-at-all", env={**os.environ, "KVCALC_DEBUG": "1"})
    _, err = process.communicate(timeout=120)
    assert "Traceback" in err


def test_version_and_help() -> None:
    out, _ = kvcalc("--version").communicate(timeout=120)
    assert out.startswith("kvcalc ")
    out, _ = kvcalc("--help").communicate(timeout=120)
    assert out.index("kvcalc size llama-3-8b --gpu h100-sxm") < out.index("Options:")


def test_fail_if_unfit(cli: Cli) -> None:
    assert cli("size llama-3-70b --gpu h100-sxm").code == 0
    assert cli("size llama-3-70b --gpu h100-sxm --fail-if-unfit").code == 1
    assert cli("size llama-3-8b --gpu h100-sxm --fail-if-unfit").code == 0


@pytest.mark.parametrize("model", ["mistral-7b-v0.1", "falcon-mamba-7b", "gemma-3-1b", "whisper-tiny", "deepseek-v3"])
@pytest.mark.parametrize(
    "command", ["size", "step --batch 2 --context 1k", "curve --batch 1 --batch 2", "prefill --isl 1k --batch 2"]
)
def test_every_kind_of_cache_explains_itself(cli: Cli, command: str, model: str) -> None:
    name, *flags = command.split()
    ran = cli(f"{name} {model} --gpu mi300x --price 2 --explain", *flags)
    assert ran.code == 0, ran.err
    assert not {"None", "nan", "inf"} & set(ran.out.split())


def test_a_plot_goes_to_stdout_where_that_is_said() -> None:
    process = kvcalc("curve", "llama-3-8b", "--gpu", "h100-sxm", "--format", "svg", "-o", "-")
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert out.rstrip().endswith("</svg>")


def test_the_bill_is_split_by_kind_of_token(cli: Cli) -> None:
    asked = "size llama-3-8b --gpu h100-sxm --isl 2k --osl 256 --concurrency 8 --price 2 --json"
    found = cli(asked).result["serving"]
    kinds, per_hour = found["usd_per_million_tokens"], found["output_tokens_per_s"]["value"] * 3600 / 1e6
    # Two dollars an hour buy all of it: 2,000 tokens in for 256 out.
    assert per_hour * (kinds["output"] + kinds["input"] * 2000 / 256) == pytest.approx(2)
    assert kinds["cached_input"] is None
    assert per_hour * found["usd_per_million_output_tokens"]["value"] == pytest.approx(2)
    hit = cli(f"{asked} --prefix-hit 1024").result["serving"]
    kinds, per_hour = hit["usd_per_million_tokens"], hit["output_tokens_per_s"]["value"] * 3600 / 1e6
    parts = kinds["output"] + kinds["input"] * (2000 - 1024) / 256 + kinds["cached_input"] * 1024 / 256
    assert per_hour * parts == pytest.approx(2)
    assert 0 < kinds["cached_input"] < kinds["input"]


def test_each_length_says_how_fast_one_sequence_is_alone(cli: Cli) -> None:
    """What `step` says of a batch of one at that context."""
    result = cli("size llama-3.1-8b -q q4_k_m --gpu rtx4070 --engine llamacpp --json").result
    row = next(row for row in result["by_context"] if row["context"] == 2048)
    step = cli("step llama-3.1-8b -q q4_k_m --gpu rtx4070 --engine llamacpp --batch 1 --context 2048 --json").result
    assert row["alone_tokens_per_s"]["value"] == pytest.approx(1 / step["estimate_s"]["value"])


def test_memory_is_of_one_gpu_or_of_cards_that_are_taken_as_one(cli: Cli) -> None:
    for gpu, said in (("rtx3090", "Memory of one GPU"), ("rtx3090+rtx3060", "Memory of all cards")):
        assert said in cli(f"size llama-3-8b --gpu {gpu} --engine llamacpp -q q8_0").out
