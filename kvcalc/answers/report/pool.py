"""A small pool: the cache in one piece a request, and in blocks. Who runs when is `simulate`'s; here blocks have
places.

A step gives every running request one token, so that its cache at any step follows from its first and last token.
Blocks are those of the simulator's allocator, with block tables, reference counts and copy on write.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question
from kvcalc.answers.simulate.ask import workload_of
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import Reserving, SimulateSettings
from kvcalc.errors import KvcalcError
from kvcalc.results.report import Pool, PoolCell, PoolMoment, PoolRun
from kvcalc.simulator.allocator import BlockAllocator
from kvcalc.specs.base import replace
from kvcalc.specs.load import Workload

BLOCKS, REGIONS, REQUESTS = 96, 4, 8
MOMENTS = 24
CONTIGUOUS, PAGED, FORKED = "in one piece", "paged", "paged, a request forked"
BLOCK_SIZES = range(8, 65)  # tokens: of smaller ones nothing is wasted, a larger one is a whole small request
LESSONS_BLOCK = 16


class Request(NamedTuple):
    """Of which step a request has its first token, and its last."""

    number: int
    prompt: int
    first: int
    last: int

    def tokens(self, step: int) -> int:
        """In the cache after a step; 0: it does not run."""
        return self.prompt + step - self.first if self.first <= step < self.last else 0


def lengths(block_size: int) -> dict[str, str]:
    """Prompts of two to six blocks, answers of two to twelve more: never above a fourth of the pool."""
    return {"input_len": f"{2 * block_size}-{6 * block_size}", "output_len": f"{2 * block_size}-{12 * block_size}"}


def flags(question: Question) -> dict[str, Any]:
    """What `simulate` is given beside the deployment; a block more where the engine keeps one for itself."""
    own_size = _block_size(question)
    size = own_size if own_size in BLOCK_SIZES else LESSONS_BLOCK
    held = Deployed(question).capacity
    kept = held.pools[0].unusable_blocks if held is not None and held.pools else 0
    return {"num_gpu_blocks_override": str(BLOCKS + kept), "max_model_len": str(BLOCKS // REGIONS * size),
            "max_num_seqs": str(REQUESTS), "requests": str(REQUESTS), "arrivals": "at-once", **lengths(size),
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
    deployment = replace(question.deployment, max_num_seqs=REQUESTS, max_model_len=longest)
    asked = question._replace(deployment=deployment, workload=Workload())
    usual = SimulateSettings(requests=REQUESTS, arrivals="at-once", step_time_s=1.0, async_scheduling=False)
    workload = workload_of(asked, usual, lengths(size))
    replica = simulated(Deployed(asked), usual, longest)
    settings = dataclasses.replace(replica.settings, num_blocks=BLOCKS, block_size=size, extra_blocks=0,
                                   prefix_caching=False)  # fmt: skip
    as_served = not replica.settings.extra_blocks and size == own_size and replica.replicas == 1
    runs, moments, cells = [], [], []
    for mode in (CONTIGUOUS, PAGED, FORKED):
        reservation: Reserving = "max" if mode == CONTIGUOUS else "none"
        own = dataclasses.replace(replica, settings=settings, reservation=reservation, longest=longest, replicas=1,
                                  lockstep=False)  # fmt: skip
        one = Latencies(run(own, workload.requests), workload.requests)
        if one.outcome.counts.preemptions:
            raise KvcalcError("the small pool is too small for its requests", hint="see `kvcalc simulate`")
        runs.append(_run(mode, own, one))
        for moment, held in _frames(mode, size, _requests(one)):
            moments.append(moment)
            cells += held
    return Pool(blocks=BLOCKS, block_size=size, reserved_tokens=longest, requests=REQUESTS, as_served=as_served,
                runs=tuple(runs), moments=tuple(moments), cells=tuple(cells))  # fmt: skip


def _block_size(question: Question) -> int:
    deployed = Deployed(question)
    if not deployed.profile.bytes_per_token_at_start:
        raise KvcalcError("its cache does not grow with the tokens: there is nothing to page", hint="see `kvcalc kv`")
    held = deployed.capacity
    return (None if held is None else held.block_size) or question.deployment.block_size or LESSONS_BLOCK


def _run(mode: str, replica: Simulated, one: Latencies) -> PoolRun:
    use = one.outcome.use
    return PoolRun(
        mode=mode,
        steps=use.steps,
        slot_use=use.slots_s / (replica.settings.max_num_seqs * one.span_s),
        block_use=use.held_s / (replica.settings.num_blocks * one.span_s),
    )


def _requests(one: Latencies) -> list[Request]:
    """Steps are seconds here."""
    seen, requests = one.outcome.seen, one.requests
    return [Request(i, requests.prompt[i], round(seen.first_s[i]), round(seen.last_s[i])) for i in range(len(requests))]


def _frames(mode: str, size: int, requests: list[Request]) -> Iterator[tuple[PoolMoment, list[PoolCell]]]:
    """Moments that are equally far apart, from the first step to the last."""
    end = max(one.last for one in requests)
    shown = {1 + (end - 1) * i // (MOMENTS - 1) for i in range(MOMENTS)}
    places = _Regions() if mode == CONTIGUOUS else _Blocks(size, forks=mode == FORKED)
    for step in range(1, end + 1):
        places.advance(step, requests)
        if step in shown:
            yield _frame(mode, step, size, requests, places)


class _Regions:
    """One region a request, the first that is free; all of it is held from the start."""

    copies = 0

    def __init__(self) -> None:
        self.owners: list[int | None] = [None] * REGIONS

    def advance(self, step: int, requests: list[Request]) -> None:
        running = {one.number for one in requests if one.tokens(step)}
        self.owners = [owner if owner in running else None for owner in self.owners]
        for number in sorted(running - set(self.owners)):
            self.owners[self.owners.index(None)] = number

    def held(self, step: int, size: int, requests: list[Request]) -> Iterator[tuple[int, int, int, int]]:
        """(block, request, tokens, holders) of every block that is held."""
        each = BLOCKS // REGIONS
        for region, owner in enumerate(self.owners):
            if owner is not None:
                tokens = requests[owner].tokens(step)
                for i in range(each):
                    yield region * each + i, owner, min(size, max(0, tokens - i * size)), 1


class _Blocks:
    """Blocks as they are needed. Forking, the oldest request becomes two in the middle of its answer."""

    def __init__(self, size: int, forks: bool) -> None:
        self.allocator = BlockAllocator(2 * BLOCKS, size)
        self.forks, self.child = forks, REQUESTS

    @property
    def copies(self) -> int:
        return self.allocator.copies

    def advance(self, step: int, requests: list[Request]) -> None:
        tables, oldest = self.allocator.tables, requests[0]
        for one in requests:
            if one.number in tables and not one.tokens(step):
                self.allocator.end(one.number)
        if self.child in tables and not oldest.tokens(step):
            self.allocator.end(self.child)
        for one in requests:
            if one.number in tables:
                self.allocator.append(one.number)
            elif one.tokens(step):
                self.allocator.start(one.number, one.tokens(step))
        if self.child in tables:
            self.allocator.append(self.child)
        elif self.forks and step == (oldest.first + oldest.last) // 2:
            self.allocator.fork(oldest.number, self.child)

    def held(self, step: int, size: int, requests: list[Request]) -> Iterator[tuple[int, int, int, int]]:
        shown: set[int] = set()
        for request, table in sorted(self.allocator.tables.items()):
            for i, block in enumerate(table):
                if block not in shown:
                    shown.add(block)
                    tokens = min(size, self.allocator.tokens[request] - i * size)
                    yield block, request, tokens, self.allocator.refs[block]


def _frame(
    mode: str, step: int, size: int, requests: list[Request], places: _Regions | _Blocks
) -> tuple[PoolMoment, list[PoolCell]]:
    held = sorted(places.held(step, size, requests))
    tokens = sum(one[2] for one in held)
    running = sum(1 for one in requests if one.tokens(step))
    moment = PoolMoment(
        mode=mode,
        step=step,
        running=running + (1 if isinstance(places, _Blocks) and places.child in places.allocator.tables else 0),
        waiting=sum(1 for one in requests if step < one.first),
        tokens=tokens,
        held_blocks=len(held),
        used_share=tokens / (size * len(held)) if held else 1.0,
        copies=places.copies,
    )
    cells = [
        PoolCell(mode=mode, step=step, block=block, request=request + 1, tokens=filled, holders=holders)
        for block, request, filled, holders in held
    ]
    return moment, cells
