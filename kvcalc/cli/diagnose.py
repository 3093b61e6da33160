"""`kvcalc diagnose`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, TextIO

from kvcalc.cli.flags import GPU, OUTPUT, SERVING, Flag
from kvcalc.cli.options import Flags, Positional, takes
from kvcalc.cli.output import Output
from kvcalc.errors import KvcalcError

LogArgument = Annotated[str, Positional("[LOGFILE]", "A start-up log; - or nothing is stdin.")]
MODEL = (Flag("model", ("--model",), "MODEL", "Where the log does not name it.", "Model"),)


@takes(MODEL, GPU, SERVING, OUTPUT)
def command(flags: Flags, logfile: LogArgument = "-") -> None:
    """Where an engine's memory went, whether that agrees with the prediction, what to change.

    \b
      kvcalc diagnose vllm.log
      kvcalc diagnose vllm.log --gpu l40s --model qwen3-8b
      docker logs server 2>&1 | kvcalc diagnose --json

    Start-up logs of vLLM, SGLang, TensorRT-LLM and llama.cpp; a refused start is explained.
    """
    output = Output(flags)
    from kvcalc.answers.diagnose.answer import diagnose
    from kvcalc.engines.logs.read import bounded_lines
    from kvcalc.render.pages.diagnose import page, rows

    with _opened(logfile) as file:
        report = diagnose(bounded_lines(file), flags)
    output.emit(report, page, rows)


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """The file, or stdin, of which bytes that are no UTF-8 do not matter."""
    if path == "-":
        if sys.stdin.isatty():
            raise KvcalcError(
                "no log given", hint="name a file, or pipe one in: `vllm serve ... 2>&1 | kvcalc diagnose`"
            )
        sys.stdin.reconfigure(errors="replace")  # type: ignore[union-attr]
        yield sys.stdin
        return
    from kvcalc.catalog.files.log import opened_log

    with opened_log(path) as file:
        yield file
