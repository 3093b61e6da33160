"""For the cog blocks of the documentation: what a command prints, as a reader would see it in a terminal.

`python -m cogapp -r -P README.md docs/*.md docs/*/*.md` writes the shown outputs anew; CI checks that they are current.
"""

import contextlib
import io
import json
import os
import shlex
from typing import Any

from kvcalc.cli.app import run


def output(command: str) -> str:
    """What `command` prints on stdout: 80 columns, no colour."""
    words = shlex.split(command)
    assert words[0] == "kvcalc", command
    os.environ["NO_COLOR"] = "1"
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(words[1:])
    assert code in (0, 1), f"{command}: {err.getvalue()}"
    return out.getvalue()


def shown(command: str, lines: int | None = None) -> None:
    """Print a console block: the command and its output, or the first `lines` of it."""
    text = output(command).rstrip().splitlines()
    kept = text if lines is None else [*text[:lines], "..."]
    print("```console", f"$ {command}", *kept, "```", sep="\n")


def result(command: str) -> Any:
    """The `result` of a command's JSON, for sentences that state figures."""
    return json.loads(output(command + " --json"))["result"]
