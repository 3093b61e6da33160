"""Trials: each input ends in an answer or in a KvcalcError that says something, within seconds.

A few of each reader in the suite; `KVCALC_FUZZ=100000` more; `python -m tests.fuzz --minutes 10` all readers in turn.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from random import Random

from kvcalc.catalog.models import load_model
from kvcalc.cli.app import run
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import parameters_by_category
from kvcalc.errors import EXIT_INTERRUPTED, EXIT_LIMIT, EXIT_OK, EXIT_USAGE, KvcalcError

LONGEST_S = 10
USUAL = 20  # trials of a reader in the suite
# From a seeded generator and a place for files: make an input, ask, and say how it ended.
Trial = Callable[[Random, Path], str]


class Hangs(BaseException):
    """No answer within seconds."""


def trials(trial: Trial, place: Path) -> None:
    """As many trials as are wished for; the message of a failure has the seed that repeats it."""
    for seed in range(int(os.environ.get("KVCALC_FUZZ", USUAL))):
        said = outcome(trial, seed, place)
        assert not said.startswith("!"), f"seed {seed}: {said}"


def outcome(trial: Trial, seed: int, place: Path) -> str:
    """How a trial ended: in a word, or in one with `!` before it where it may not."""
    try:
        with _limited():
            return trial(Random(seed), place)
    except KvcalcError as error:
        if not error.message or not error.hint or len(error.message) > 1500:
            return f"!says nothing: {error.message[:100]!r}, {error.hint[:100]!r}"
        return "refused"
    except Hangs:
        return f"!no answer within {LONGEST_S} s"
    except Exception as error:
        return f"!{type(error).__name__}: {str(error)[:200]}"


@contextmanager
def _limited() -> Iterator[None]:
    def ring(*_: object) -> None:
        raise Hangs

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, LONGEST_S)  # of work: another's load is no fault
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def ran(words: list[str]) -> str:
    """How a command line ends."""
    out, err = StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = run(words)
        except SystemExit as stop:  # Typer's, for its help
            code = int(stop.code or 0)
    said = err.getvalue()
    if code not in (EXIT_OK, EXIT_LIMIT, EXIT_USAGE, EXIT_INTERRUPTED) or "Traceback" in said:
        return f"!exit {code}: {said[:300]}"
    if "KVCALC_DEBUG=1" in said:  # caught, but told in nobody's words: no memory, too deep, an error of the system
        return f"!exit {code}: {said[:300]}"
    if code == EXIT_USAGE and not ("error: " in said and "hint: " in said):
        return f"!exit 2 without a word: {said[:200]!r}"
    if "\x1b" in out.getvalue() + said:
        return "!an escape on the terminal"
    return {EXIT_OK: "answered", EXIT_LIMIT: "limit", EXIT_USAGE: "refused"}.get(code, "interrupted")


def counted_model(path: Path) -> str:
    """A model read from a file, its cache and parameters counted."""
    model = load_model(str(path))
    cache_profile(model, "bf16")
    parameters_by_category(model)
    return "read"


def counted(trial: Trial, seeds: range, place: Path) -> Counter[str]:
    """How often each ending came."""
    return Counter(outcome(trial, seed, place) for seed in seeds)
