"""A fault of kvcalc's own is told as one, and never looks like a broken limit."""

import os
import subprocess
import sys

import pytest

from tests.cli.conftest import Cli


@pytest.mark.parametrize("line", ["kv llama-3-8b", "check budget.toml", "size llama-3-8b --gpu h100-sxm --no-such=1"])
@pytest.mark.parametrize("error", [ZeroDivisionError("division by zero"), AssertionError(), KeyError("a\x1b[2J\nb")])
def test_a_fault_is_one_error_line_and_70(
    cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("kvcalc.cli.app._run", broken)
    ran = cli(line)
    assert (ran.code, ran.out) == (70, "")
    first, second = ran.err.splitlines()
    assert first.startswith("error: a fault of kvcalc's own")
    assert type(error).__name__ in first
    assert "test_faults.py, line " in first
    assert second.startswith("hint: please report it")
    assert "KVCALC_DEBUG=1" in second
    assert "\x1b" not in ran.err


def test_a_gate_does_not_take_a_fault_for_a_broken_limit(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kvcalc.answers.size.answer.size", lambda *_, **__: 1 // 0)
    assert cli("size llama-3-8b --gpu h100-sxm --fail-if-unfit").code == 70


@pytest.mark.parametrize("fails, code", [("1 // 0", 70), ("kvcalc.KvcalcError('no', hint='yes')", 2)])
def test_debug_shows_the_traceback_and_keeps_the_code(fails: str, code: int) -> None:
    script = (
        "import sys, kvcalc\n"
        "import kvcalc.answers.kv.answer as kv\n"
        "def broken(*a, **k):\n"
        f"    raise {fails}\n"
        "kv.kv = broken\n"
        "from kvcalc.cli.app import run\n"
        "sys.exit(run(['kv', 'llama-3-8b']))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "KVCALC_DEBUG": "1"}
    )
    assert ran.returncode == code
    assert "Traceback" in ran.stderr
    assert ran.stderr.splitlines()[-1].startswith("hint: ")


def test_the_environment_is_no_fault(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("kvcalc.cli.app._run", full)
    assert cli("kv llama-3-8b").code == 2
