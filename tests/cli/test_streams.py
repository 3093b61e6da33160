"""Standard output and error as they may be: closed, full, of another encoding."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

LINE = [sys.executable, "-m", "kvcalc", "size", "llama-3-8b", "--gpu", "h100-sxm"]


def shell(command: str, **env: str) -> subprocess.CompletedProcess[str]:
    line = " ".join(LINE)
    return subprocess.run(
        ["sh", "-c", command.replace("KVCALC", line)],
        capture_output=True, text=True, timeout=120, env={**os.environ, **env},
        encoding=env.get("PYTHONIOENCODING", "utf-8"),
    )  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_a_full_standard_output_is_an_error() -> None:
    ran = shell("KVCALC > /dev/full")
    assert ran.returncode == 2
    assert "standard output cannot be written: No space left on device" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


def test_a_closed_standard_output_is_an_error() -> None:
    ran = shell("KVCALC >&-")
    assert ran.returncode == 2
    assert "error: standard output is closed" in ran.stderr


def test_a_closed_standard_error_leaves_the_answer_whole() -> None:
    ran = shell("KVCALC --json 2>&-")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["schema"].startswith("kvcalc.size/")
    assert shell("KVCALC --gpu no 2>&-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no such device here")
def test_a_full_standard_error_leaves_the_answer_whole() -> None:
    ran = shell("KVCALC --json 2>/dev/full")
    assert json.loads(ran.stdout)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
def test_a_narrow_encoding_gets_plain_characters(encoding: str) -> None:
    table = shell("KVCALC", PYTHONIOENCODING=encoding)
    assert table.returncode == 0
    assert "llama-3-8b on 1" in table.stdout.splitlines()[0]
    told = shell("KVCALC --json", PYTHONIOENCODING=encoding)
    assert json.loads(told.stdout)["result"] == json.loads(shell("KVCALC --json").stdout)["result"]
