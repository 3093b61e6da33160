"""Calls of a library that talks to a server: with an end, without its chatter, with a line that counts."""

import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Answer = TypeVar("Answer")


def within(seconds: float, call: Callable[[], Answer]) -> Answer:
    """The call's result, or TimeoutError: a trickling server is given up on."""
    outcome: list[Answer | BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise TimeoutError
    if isinstance(outcome[0], BaseException):
        raise outcome[0]
    return outcome[0]


@contextmanager
def quiet(utils: Any) -> Iterator[None]:
    """Without the library's progress bars and its word on each retry: the files are small, the error says it all."""
    shown = not utils.are_progress_bars_disabled()
    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    if shown:
        utils.disable_progress_bars()
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
        if shown:
            utils.enable_progress_bars()


@contextmanager
def progress(what: str, count: int, few: int) -> Iterator[Callable[[int], None]]:
    """A line on stderr that counts, where there is a terminal and more than a few to wait for."""
    shown = count > few and sys.stderr.isatty()

    def step(done: int) -> None:
        if shown:
            print(f"\r{what} {done}/{count}", end="", file=sys.stderr, flush=True)

    yield step
    if shown:
        print("\r" + " " * (len(what) + 16) + "\r", end="", file=sys.stderr, flush=True)
