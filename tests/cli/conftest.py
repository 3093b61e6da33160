"""Run the command line in this process and look at what it printed."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from kvcalc.cli.app import run


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The envelope; NaN and Infinity are refused."""

        def refuse(name: str) -> None:
            raise AssertionError(f"{name} in JSON")

        return json.loads(self.out, parse_constant=refuse)

    @property
    def result(self) -> Any:
        return self.json["result"]


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    def call(line: str, *more: str) -> Ran:
        capsys.readouterr()
        code = run([*line.split(), *more])
        captured = capsys.readouterr()
        return Ran(code, captured.out, captured.err)

    return call


def assert_refused(ran: Ran) -> None:
    """One `error:` line, one `hint:` line, exit code 2, nothing on stdout, no traceback."""
    assert ran.code == 2, ran
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if not line.startswith("warning:")]
    assert len(lines) == 2, ran.err
    assert lines[0].startswith("error: ")
    assert lines[1].startswith("hint: ")
    assert len(lines[0]) > len("error: ")
    assert len(lines[1]) > len("hint: ")
    assert "Traceback" not in ran.err
