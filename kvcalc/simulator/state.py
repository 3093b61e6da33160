"""What every scheduler keeps: who waits, who decodes, who gave its last token, and what was counted on the way."""

from collections import deque
from dataclasses import dataclass
from typing import Protocol

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.decoding import Decoding
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import Chunk, Line


@dataclass(slots=True)
class Counts:
    """Whole numbers of a run."""

    steps: int = 0
    preemptions: int = 0
    recomputed: int = 0  # tokens that had been in the cache
    swapped_blocks: int = 0  # both ways


class Observer(Protocol):
    """Who wants to know of every step: latencies, use, timelines."""

    def passed(self, scheduler: "Scheduler", steps: int, start_s: float, end_s: float) -> None:
        """So many equal steps ran; the scheduler is still as it planned the first."""
        ...


class Scheduler(Protocol):
    """A policy. `plan` says what the next step does, `passed` that it ran; `settle` gives back what ended."""

    waiting: deque[int]
    running: int
    decoding: Decoding
    counts: Counts
    pool: "Pool | PrefixPool"
    settings: Settings
    gaps: list[float]  # between two tokens of a request that was stopped meanwhile
    # Of the planned step
    line: Line
    chunks: list[Chunk]
    completed: list[int]  # prompts that it completes
    prompts_first: bool  # a step is of prompts or of decode
    paused_s: float  # that sequences which decode have waited for prompts
    open: bool  # a request that arrives might be admitted: no step may pass it by

    def promised(self) -> int | None:
        """Tokens that the running requests will have, where room for them is kept; None: blocks come on demand."""
        ...

    def known_tokens(self, request: int) -> int:
        """Of a request whose prompt is in work: the prompt, and what it had generated before it was stopped."""
        ...

    def settle(self, done: int) -> None:
        """Results of all steps up to `done` are known: their ended requests give slots and blocks back."""
        ...

    def plan(self, step: int) -> int:
        """The next step; how many equal ones there are. 0: there is nothing to do."""
        ...

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        """So many steps from this one on ran until `end_s`; the requests that had their last token."""
        ...


def pool_of(settings: Settings, paths: object = (), sizes: object = ()) -> Pool | PrefixPool:
    """The pool of a replica."""
    if settings.prefix_caching:
        return PrefixPool(settings.num_blocks, settings.block_size, paths, sizes, settings.dropped_tokens)  # type: ignore[arg-type]
    return Pool(settings.num_blocks, settings.block_size)
