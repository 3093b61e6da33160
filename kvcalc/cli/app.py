"""The command line as a whole: which commands exist, and how every ending looks.

Only the module of the command that was asked for is imported; the others stand in the list with their one line.
"""

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

import typer

from kvcalc.cli.options import normal
from kvcalc.errors import EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE, KvcalcError

# name → the question it answers, in the order of a user's day
COMMANDS = {
    "size": "Does it fit, how many users, how fast, what binds, what it costs.",
    "kv": "What one token and one sequence of cache cost, by kind of layer.",
    "step": "One decode step taken apart: bytes, FLOPs, bounds, per operator.",
    "compare": "The same question over several values of any flag, ranked.",
    "curve": "Throughput against speed per user, over batch or context.",
    "simulate": "Requests through a scheduler: percentiles, goodput, queues, use.",
    "check": "Do the deployments in a budget file still meet their limits.",
    "speculate": "Speculative decoding: tokens per pass, speed-up, where it stops paying.",
    "prefill": "Time to first token, chunks, the spike, transfers, preemption.",
    "diagnose": "An engine's start-up log: where the memory went, what to change.",
    "calibrate": "This device's real bandwidth and matrix rate, as a GPU spec.",
    "run": "A paged decode loop on this device against the prediction.",
    "models": "The model cards: parameters, weights, cache, and their sources.",
    "gpus": "The GPU specs, with the source of each number.",
}

MAIN_HELP = """Capacity, speed and cost of an LLM deployment.

\b
  kvcalc size llama-3-8b --gpu h100-sxm
  kvcalc size meta-llama/Llama-3.1-70B --gpu h100-sxm -tp 4
  kvcalc kv llama-3-8b gemma-3-27b deepseek-v3
  kvcalc step llama-3-8b --gpu h100-sxm --batch 64 --context 2048

MODEL is a card's name, a Hugging Face id, a folder, a config.json, a .gguf or a TOML.
"""


def run(argv: Sequence[str]) -> int:
    """Run one command line; returns the exit code and never lets a traceback out (unless KVCALC_DEBUG=1)."""
    if os.environ.get("KVCALC_DEBUG") == "1":
        return _run(argv)
    try:
        return _run(argv)
    except KvcalcError as error:
        return fail(error.message, error.hint)
    except KeyboardInterrupt:
        return interrupted()
    except (OSError, MemoryError, RecursionError) as error:
        return fail(f"{type(error).__name__}: {error}", "KVCALC_DEBUG=1 shows where it happened")


def fail(message: str, hint: str) -> int:
    """One `error:` line, one `hint:` line, exit code 2."""
    print(f"error: {one_line(message)}\nhint: {one_line(hint)}", file=sys.stderr)
    return EXIT_USAGE


def interrupted() -> int:
    """Ctrl-C."""
    print("error: interrupted", file=sys.stderr)
    return EXIT_INTERRUPTED


def one_line(text: str) -> str:
    """Without line breaks and runs of blanks, whatever a message quotes."""
    return " ".join(text.split())


def _run(argv: Sequence[str]) -> int:
    if not argv and not _completing():
        # Nothing was asked: say what can be, but do not let a script with an empty variable pass.
        with contextlib.redirect_stdout(sys.stderr):
            _run(["--help"])
        return EXIT_USAGE
    try:
        code = build_app(argv)(list(argv), prog_name="kvcalc", standalone_mode=False)
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
    command = _wanted(argv)
    path = f"kvcalc {command}" if command in COMMANDS else "kvcalc"
    return f"`{path} --help` shows what it takes"


def _wanted(argv: Sequence[str]) -> str | None:
    return next((word for word in argv if not word.startswith("-")), None)


def _completing() -> bool:
    """Whether the shell asks what could follow."""
    return any(name.startswith("_KVCALC_COMPLETE") for name in os.environ)


def build_app(argv: Sequence[str]) -> Callable[..., Any]:
    """The application as far as this command line needs it: one command where it begins with one, else the list."""
    wanted = _wanted(argv)
    completing = _completing()
    first = not completing and wanted in COMMANDS and argv[0] == wanted
    app = typer.Typer(
        help=MAIN_HELP,
        add_completion=not first,
        rich_markup_mode=None,  # plain help starts twice as fast
        pretty_exceptions_enable=False,
        context_settings={
            "help_option_names": ["-h", "--help"],
            "max_content_width": 100,
            "token_normalize_func": normal,
        },
    )
    app.callback()(_root)
    for name, line in COMMANDS.items():
        if first and name != wanted:
            continue
        function = _not_loaded
        if completing or name == wanted:
            function = import_module(f"kvcalc.cli.{name}").command.for_typer(None if completing else argv)
        app.command(name, short_help=line)(function)
    return typer.main.get_command(app)


def _not_loaded() -> None:
    raise AssertionError("only the command that was asked for is called")


def _print_version(wanted: bool) -> None:
    if wanted:
        from kvcalc import __version__

        print(f"kvcalc {__version__}")
        raise typer.Exit


def _root(
    version: bool = typer.Option(
        False, "--version", "-V", is_eager=True, callback=_print_version, help="Print the version and exit."
    ),
) -> None:
    """The flags of `kvcalc` itself."""
