"""The command line as a whole: which commands exist, and how every ending looks.

Only the module of the command that was asked for is imported; the others stand in the list with their one line.
"""

import contextlib
import os
import sys
from collections.abc import Sequence
from importlib import import_module

from kvcalc.cli.messages import say
from kvcalc.errors import EXIT_FAULT, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, KvcalcError

# name → the question it answers, in the order of a user's day
COMMANDS = {
    "size": "Does it fit, how many users, how fast, what binds, what it costs.",
    "kv": "What one token and one sequence of cache cost, by kind of layer.",
    "step": "One decode step taken apart: bytes, FLOPs, bounds, per operator.",
    "compare": "The same question over several values of any flag, ranked.",
    "curve": "Throughput against speed per user, over batch or context.",
    "simulate": "Requests through a scheduler: percentiles, goodput, queues, use.",
    "plan": "The cheapest deployments that meet a workload and its targets.",
    "check": "Do the deployments in a budget file still meet their limits.",
    "speculate": "Speculative decoding: tokens per pass, speed-up, where it stops paying.",
    "prefill": "Time to first token, chunks, the spike, transfers, preemption.",
    "diagnose": "An engine's start-up log: where the memory went, what to change.",
    "calibrate": "This device's real bandwidth and matrix rate, as a GPU spec.",
    "run": "A paged decode loop on this device against the prediction.",
    "report": "One self-contained page of the answers and figures.",
    "models": "The model cards: parameters, weights, cache, and their sources.",
    "gpus": "The GPU specs, with the source of each number.",
}

# How `kvcalc --help` puts them together.
GROUPS = {
    "Size": ("size", "kv", "compare"),
    "Speed": ("step", "curve", "prefill", "speculate"),
    "Serve": ("simulate", "plan"),
    "Gate": ("check", "diagnose"),
    "Measure": ("calibrate", "run"),
    "Catalog": ("models", "gpus", "report"),
}


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code and never lets a traceback out (KVCALC_DEBUG=1 shows it too)."""
    try:
        return _run(argv)
    except KvcalcError as error:
        return fail(error.message, error.hint)
    except KeyboardInterrupt:
        return interrupted()
    except (OSError, MemoryError, RecursionError) as error:
        return fail(f"{type(error).__name__}: {error}", "KVCALC_DEBUG=1 shows where it happened")
    except Exception as error:
        return fault(error)


def fail(message: str, hint: str) -> int:
    """Bad input or environment: one `error:` line, one `hint:` line, exit code 2."""
    _debug()
    say("error", message)
    say("hint", hint)
    return EXIT_USAGE


def fault(error: Exception) -> int:
    """A mistake in kvcalc: said as one, with the place, and an exit code that no gate takes for a broken limit."""
    _debug()
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    where = "" if last is None else f" ({os.path.basename(last.tb_frame.f_code.co_filename)}, line {last.tb_lineno})"
    say("error", f"a fault of kvcalc's own, not of what it was asked: {type(error).__name__}: {error}{where}")
    say("hint", "please report it to kvcalc's maintainers with the command line; KVCALC_DEBUG=1 shows the traceback")
    return EXIT_FAULT


def _debug() -> None:
    if os.environ.get("KVCALC_DEBUG") == "1" and sys.stderr is not None:
        import traceback

        traceback.print_exc()


def interrupted() -> int:
    """Ctrl-C."""
    say("error", "interrupted")
    return EXIT_INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    if not argv and not _completing():
        # Nothing was asked: say what can be, but do not let a script with an empty variable pass.
        with contextlib.redirect_stdout(sys.stderr):
            _run(["--help"])
        return EXIT_USAGE
    if argv and argv[0] in COMMANDS and not _completing():
        call = import_module(f"kvcalc.cli.{argv[0]}").command.plainly(argv[1:])
        if call is not None:
            return call() or EXIT_OK
    return _by_typer(argv)


def _by_typer(argv: Sequence[str]) -> int:
    from kvcalc.cli.typer_app import build_app

    try:
        code = build_app(argv, _completing())(list(argv), prog_name="kvcalc", standalone_mode=False)
    except Exception as error:
        # Typer's usage errors: their class moved between versions, what they carry did not.
        if not hasattr(error, "format_message"):
            if type(error).__name__ == "Abort":
                raise KeyboardInterrupt from error
            raise
        message, _, _ = error.format_message().partition(" Did you mean ")  # the hint says it
        raise KvcalcError(message, hint=_usage_hint(argv, message)) from error
    # Typer turns Ctrl-C inside a command into this exit code, without a word.
    return interrupted() if code == EXIT_INTERRUPTED else code if isinstance(code, int) else EXIT_OK


def _usage_hint(argv: Sequence[str], message: str) -> str:
    if message.startswith("No such command"):
        from difflib import get_close_matches

        close = get_close_matches(message.partition("'")[2].partition("'")[0], COMMANDS, n=1)
        meant = f"did you mean `kvcalc {close[0]}`? " if close else ""
        return f"{meant}`kvcalc --help` lists the commands"
    command = next((word for word in argv if not word.startswith("-")), None)
    path = f"kvcalc {command}" if command in COMMANDS else "kvcalc"
    return f"{_who_takes(message)}`{path} --help` shows what it takes"


def _who_takes(message: str) -> str:
    """The commands that have the flag which this one has not."""
    _, said, flag = message.partition("No such option: ")
    if not said:
        return ""
    flag = flag.split()[0]
    takers = [name for name in COMMANDS if import_module(f"kvcalc.cli.{name}").command.knows(flag)]
    return f"{flag} is of {', '.join(f'`kvcalc {name}`' for name in takers)}; " if takers else ""


def _completing() -> bool:
    """Whether the shell asks what could follow."""
    return any(name.startswith("_KVCALC_COMPLETE") for name in os.environ)
