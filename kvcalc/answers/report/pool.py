"""A small pool: the cache in one piece a request, and in blocks. Who runs when is `simulate`'s; here blocks have
places.

Every step is looked at: who decodes has a token more after it, who completes a prompt has that, who is stopped none.
Blocks are those of the simulator's allocator, with block tables, reference counts and copy on write.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question
from kvcalc.answers.simulate.ask import workload_of
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.replicas import scheduler_of, shared_of
from kvcalc.answers.simulate.settings import Reserving, SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.results.report import Pool, PoolCell, PoolMoment, PoolRun
from kvcalc.simulator.allocator import BlockAllocator
from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.metrics import Use
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.base import Running
from kvcalc.simulator.state import Scheduler
from kvcalc.specs.base import replace
from kvcalc.specs.load import Workload

BLOCKS, REGIONS, REQUESTS = 96, 4, 8
CROWD = 2 * REQUESTS  # that come where the pool is to run out
MOMENTS = 24
CONTIGUOUS, PAGED, FORKED = "in one piece", "paged", "paged, a request forked"
CROWDED = "paged, twice the requests"
BLOCK_SIZES = range(8, 65)  # tokens: of smaller ones nothing is wasted, a larger one is a whole small request
LESSONS_BLOCK = 16


class Frame(NamedTuple):
    """After one step: the cached tokens of who runs on, who waits, and how often somebody was stopped so far."""

    tokens: dict[int, int]
    waiting: int
    preemptions: int


class Frames(Use):
    """Every step of a run, one after another."""

    def __init__(self, requests: Requests) -> None:
        super().__init__(counts_newest=True)
        self.requests, self.frames = requests, [Frame({}, len(requests), 0)]

    def passed(self, scheduler: Scheduler, steps: int, start_s: float, end_s: float) -> None:
        """One step ran."""
        super().passed(scheduler, steps, start_s, end_s)
        assert isinstance(scheduler, Running)
        before, more = self.frames[-1].tokens, 0 if scheduler.prompts_first and scheduler.chunks else 1
        tokens = {one: before[one] + more for one in scheduler.decoding.offset}
        tokens |= {one: scheduler.known_tokens(one) for one in scheduler.completed}
        whole = self.requests
        left = {one: held for one, held in tokens.items() if held < whole.prompt[one] + whole.output[one] - 1}
        self.frames.append(Frame(left, len(scheduler.waiting), scheduler.counts.preemptions))


def lengths(block_size: int) -> dict[str, str]:
    """Prompts of two to six blocks, answers of two to twelve more: never above a fourth of the pool."""
    return {"input_len": f"{2 * block_size}-{6 * block_size}", "output_len": f"{2 * block_size}-{12 * block_size}"}


def flags(question: Question, requests: int = REQUESTS) -> dict[str, Any]:
    """What `simulate` is given beside the deployment; a block more where the engine keeps one for itself."""
    own_size = _block_size(question)
    size = own_size if own_size in BLOCK_SIZES else LESSONS_BLOCK
    held = Deployed(question).capacity
    kept = held.pools[0].unusable_blocks if held is not None and held.pools else 0
    return {"num_gpu_blocks_override": str(BLOCKS + kept), "max_model_len": str(BLOCKS // REGIONS * size),
            "max_num_seqs": str(requests), "requests": str(requests), "arrivals": "at-once", **lengths(size),
            "step_time_s": "1s", "async_scheduling": False}  # fmt: skip


def pool(question: Question) -> Pool:
    """The pool step by step, in one piece, paged, and with a request that becomes two.

    Of a cache with windows and states, only the blocks that grow with every token are shown; where the engine's blocks
    are no pages of a few tokens, those of the lessons.

    Raises:
        KvcalcError: the cache does not grow, or the deployment cannot be simulated.
    """
    own_size = _block_size(question)
    size = own_size if own_size in BLOCK_SIZES else LESSONS_BLOCK
    longest = BLOCKS // REGIONS * size
    runs, moments, cells, as_served = [], [], [], False
    for mode in (CONTIGUOUS, PAGED, FORKED, CROWDED):
        requests, own = _asked(question, size, CROWD if mode == CROWDED else REQUESTS)
        as_served = not own.settings.extra_blocks and size == own_size and own.replicas == 1
        own = _small(own, size, mode)
        seen, frames = Times.of(len(requests)), Frames(requests)
        scheduler = scheduler_of(own, requests, own.times, seen, shared_of(own, requests))
        Clock(scheduler, Arrivals(requests, seen), frames, jumps=False).run()
        frames.finish()
        runs.append(_run(mode, own, frames, max(seen.last_s)))
        middle = round(seen.first_s[0] + seen.last_s[0]) // 2
        for moment, held in _frames(mode, size, frames.frames, middle):
            moments.append(moment)
            cells += held
    return Pool(blocks=BLOCKS, block_size=size, reserved_tokens=longest, requests=REQUESTS, as_served=as_served,
                runs=tuple(runs), moments=tuple(moments), cells=tuple(cells))  # fmt: skip


def _asked(question: Question, size: int, count: int) -> tuple[Requests, Simulated]:
    """So many requests, and the deployment as `simulate` takes it."""
    longest = BLOCKS // REGIONS * size
    deployment = replace(question.deployment, max_num_seqs=count, max_model_len=longest)
    asked = question._replace(deployment=deployment, workload=Workload())
    usual = SimulateSettings(requests=count, arrivals="at-once", step_time_s=1.0, async_scheduling=False)
    return workload_of(asked, usual, lengths(size)).requests, simulated(Deployed(asked), usual, longest)


def _small(replica: Simulated, size: int, mode: str) -> Simulated:
    """One replica with the small pool, of the blocks that grow with the tokens."""
    settings = dataclasses.replace(replica.settings, num_blocks=BLOCKS, block_size=size, extra_blocks=0,
                                   prefix_caching=False, drafts=None)  # fmt: skip
    reservation: Reserving = "max" if mode == CONTIGUOUS else "none"
    return dataclasses.replace(replica, settings=settings, reservation=reservation, replicas=1, lockstep=False,
                               longest=BLOCKS // REGIONS * size)  # fmt: skip


def _block_size(question: Question) -> int:
    deployed = Deployed(question)
    if not deployed.profile.bytes_per_token_at_start:
        raise KvcalcError("its cache does not grow with the tokens: there is nothing to page", hint="see `kvcalc kv`")
    held = deployed.capacity
    return (None if held is None else held.block_size) or question.deployment.block_size or LESSONS_BLOCK


def _run(mode: str, replica: Simulated, use: Use, span_s: float) -> PoolRun:
    return PoolRun(
        mode=mode,
        steps=use.steps,
        slot_use=use.slots_s / (replica.settings.max_num_seqs * span_s),
        block_use=use.held_s / (replica.settings.num_blocks * span_s),
    )


def _frames(mode: str, size: int, frames: list[Frame], middle: int) -> Iterator[tuple[PoolMoment, list[PoolCell]]]:
    """Moments that are equally far apart, from the first step to the last; `middle`: of the oldest request's answer."""
    end = len(frames) - 1
    shown = {1 + (end - 1) * i // (MOMENTS - 1) for i in range(MOMENTS)}
    places = _Regions() if mode == CONTIGUOUS else _Blocks(size)
    for step, frame in enumerate(frames[1:], 1):
        places.advance(frame.tokens, forks=mode == FORKED and step == middle)
        if step in shown:
            yield _frame(mode, step, size, frame, places)


class _Regions:
    """One region a request, the first that is free; all of it is held from the start."""

    copies = forked = 0

    def __init__(self) -> None:
        self.owners: list[int | None] = [None] * REGIONS

    def advance(self, tokens: dict[int, int], forks: bool) -> None:
        self.owners = [owner if owner in tokens else None for owner in self.owners]
        for number in sorted(tokens.keys() - set(self.owners)):
            self.owners[self.owners.index(None)] = number

    def held(self, size: int, tokens: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
        """(block, request, tokens, holders) of every block that is held."""
        each = BLOCKS // REGIONS
        for region, owner in enumerate(self.owners):
            if owner is not None:
                for i in range(each):
                    yield region * each + i, owner, min(size, max(0, tokens[owner] - i * size)), 1


class _Blocks:
    """Blocks as they are needed. Where it forks, the oldest request becomes two."""

    CHILD = CROWD  # its number

    def __init__(self, size: int) -> None:
        self.allocator = BlockAllocator(2 * BLOCKS, size)

    @property
    def copies(self) -> int:
        return self.allocator.copies

    @property
    def forked(self) -> int:
        return int(self.CHILD in self.allocator.tables)

    def advance(self, tokens: dict[int, int], forks: bool) -> None:
        pool, child = self.allocator, self.CHILD
        for one in [one for one in pool.tables if one not in tokens and not (one == child and 0 in tokens)]:
            pool.end(one)
        for one, held in tokens.items():
            if one not in pool.tables:
                pool.start(one, held)
            elif held > pool.tokens[one]:
                pool.append(one)
        if self.forked and pool.tokens[child] < tokens[0]:
            pool.append(child)
        elif forks:
            pool.fork(0, child)

    def held(self, size: int, tokens: dict[int, int]) -> Iterator[tuple[int, int, int, int]]:
        shown: set[int] = set()
        for request, table in sorted(self.allocator.tables.items()):
            for i, block in enumerate(table):
                if block not in shown:
                    shown.add(block)
                    yield (
                        block,
                        request,
                        min(size, self.allocator.tokens[request] - i * size),
                        self.allocator.refs[block],
                    )


def _frame(
    mode: str, step: int, size: int, frame: Frame, places: _Regions | _Blocks
) -> tuple[PoolMoment, list[PoolCell]]:
    held = sorted(places.held(size, frame.tokens))
    tokens = sum(one[2] for one in held)
    moment = PoolMoment(
        mode=mode,
        step=step,
        running=len(frame.tokens) + places.forked,
        waiting=frame.waiting,
        tokens=tokens,
        held_blocks=len(held),
        used_share=tokens / (size * len(held)) if held else 1.0,
        copies=places.copies,
        preemptions=frame.preemptions,
    )
    cells = [
        PoolCell(mode=mode, step=step, block=block, request=request + 1, tokens=filled, holders=holders)
        for block, request, filled, holders in held
    ]
    return moment, cells
