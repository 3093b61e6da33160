"""What every scheduler keeps: who waits, who decodes, who gave its last token, and what was counted on the way."""

from array import array
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import Chunk, Line


@dataclass(slots=True)
class Counts:
    """Whole numbers of a run."""

    preemptions: int = 0
    recomputed: int = 0  # tokens that had been in the cache
    swapped_blocks: int = 0  # both ways
    stopped_s: "array[float]" = field(default_factory=lambda: array("d"), compare=False)  # when each was preempted

    def stopped(self, at_s: float) -> None:
        """One more preemption."""
        self.preemptions += 1
        self.stopped_s.append(at_s)


def added(counts: Iterable["Counts"]) -> "Counts":
    """Of several engines together."""
    whole = Counts()
    for one in counts:
        whole.preemptions += one.preemptions
        whole.recomputed += one.recomputed
        whole.swapped_blocks += one.swapped_blocks
        whole.stopped_s.extend(one.stopped_s)
    return whole


class Observer(Protocol):
    """Who wants to know of every step: latencies, use, timelines."""

    def passed(self, scheduler: "Scheduler", steps: int, start_s: float, end_s: float) -> None:
        """So many equal steps ran; the scheduler is still as it planned the first."""
        ...

    def finish(self) -> None:
        """After the last step."""
        ...


class Queue(Protocol):
    """Requests that wait."""

    def append(self, request: int, /) -> None:
        """One more, at the end."""
        ...

    def __len__(self) -> int: ...


class Sequences(Protocol):
    """What decodes."""

    @property
    def count(self) -> int:
        """Sequences."""
        ...

    @property
    def cached(self) -> int:
        """Their cached tokens."""
        ...

    def needed(self, step: int) -> int:
        """Blocks that a step takes."""
        ...


class Blocks(Protocol):
    """What the cache holds."""

    @property
    def blocks(self) -> int: ...
    @property
    def free(self) -> int: ...
    @property
    def block_size(self) -> int: ...
    @property
    def hit(self) -> int:
        """Tokens that were found cached, of those that were looked up."""
        ...

    @property
    def queried(self) -> int: ...


class Scheduler(Protocol):
    """A policy. `plan` says what the next step does, `passed` that it ran; `settle` gives back what ended."""

    reserves: bool  # room for whole requests, `promised` says how much
    prompts_first: bool  # a step is of prompts or of decode
    paused_s: float  # that sequences which decode have waited for prompts
    line: Line  # of the planned step
    open: bool  # a request that arrives might be admitted: no step may pass it by

    @property
    def again(self) -> bool:
        """Whether the planned step is empty, for all were stopped who would have run: plan anew."""
        ...

    @property
    def settings(self) -> Settings: ...
    @property
    def full_s(self) -> float | None:
        """When blocks first ran out; None: they never did."""
        ...

    @property
    def ended(self) -> Collection[tuple[int, int]]:
        """(step, request) of last tokens: slots and blocks are kept until they are known."""
        ...

    @property
    def waiting(self) -> Queue: ...
    @property
    def running(self) -> int: ...
    @property
    def decoding(self) -> Sequences: ...
    @property
    def pool(self) -> Blocks: ...
    @property
    def counts(self) -> Counts: ...
    @property
    def gaps(self) -> list[float]:
        """Between two tokens of a request that was stopped meanwhile."""
        ...

    @property
    def chunks(self) -> list[Chunk]:
        """Of prompts, in the planned step."""
        ...

    @property
    def completed(self) -> list[int]:
        """Prompts that it completes."""
        ...

    def promised(self) -> int:
        """Tokens that the running requests will have, where room for them is kept."""
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
