"""What every scheduler keeps: who waits, who decodes, who gave its last token, and what was counted on the way."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.decoding import Decoding
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import Chunk, Line, StepTimes

NO_TIME = Line(0.0, 0.0)


@dataclass(slots=True)
class Counts:
    """Whole numbers of a run."""

    steps: int = 0
    preemptions: int = 0
    recomputed: int = 0  # tokens that had been in the cache
    scheduled: int = 0  # tokens of all steps: budget in use
    slots: int = 0  # requests of all steps
    swapped_blocks: int = 0  # both ways


@dataclass(slots=True)
class Work:
    """The next step: a line of seconds for `steps` equal ones, or one with chunks of prompts."""

    line: Line = NO_TIME
    steps: int = 0  # 0: there is nothing to do
    chunks: tuple[Chunk, ...] = ()
    open_to_arrivals: bool = False  # one could be admitted: no step may pass it by
    decoding: int = 0


class Observer(Protocol):
    """Who wants to know of every step: latencies, use, timelines."""

    def passed(self, scheduler: "Scheduler", work: Work, steps: int, start_s: float, end_s: float) -> None:
        """So many equal steps ran."""
        ...


class Scheduler(Protocol):
    """A policy. `plan` says what the next step does, `passed` that it ran; `settle` gives back what ended."""

    waiting: deque[int]
    running: int
    decoding: Decoding
    counts: Counts
    pool: "Pool | PrefixPool"
    settings: Settings
    gaps: list[float]

    def settle(self, done: int) -> None:
        """Results of all steps up to `done` are known: their ended requests give slots and blocks back."""
        ...

    def plan(self, step: int) -> Work:
        """The next step."""
        ...

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        """So many steps from this one on ran until `end_s`; the requests that had their last token."""
        ...


def pool_of(settings: Settings, paths: object = (), sizes: object = ()) -> Pool | PrefixPool:
    """The pool of a replica."""
    if settings.prefix_caching:
        return PrefixPool(settings.num_blocks, settings.block_size, paths, sizes, settings.dropped_tokens)  # type: ignore[arg-type]
    return Pool(settings.num_blocks, settings.block_size)


__all__ = ["Counts", "Observer", "Requests", "Scheduler", "StepTimes", "Times", "Work", "pool_of"]
