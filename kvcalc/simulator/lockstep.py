"""Replicas that step together: with expert parallelism each layer waits for all, so the slowest sets the time.

The group is a scheduler like any other, so that the same clock runs it; requests are routed as they arrive.
"""

from collections.abc import Iterable, Sequence

from kvcalc.simulator.routing import Router
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import Counts, Scheduler, added
from kvcalc.simulator.step_times import Chunk, Line


class Inbox:
    """The queues of all replicas as one: what is put in goes to one of them."""

    def __init__(self, replicas: Sequence[Scheduler], router: Router) -> None:
        self.replicas, self.router = replicas, router

    def append(self, request: int) -> None:
        """To the replica that the router chooses."""
        self.replicas[self.router.choose(request)].waiting.append(request)

    def __len__(self) -> int:
        return sum(len(one.waiting) for one in self.replicas)


class Total:
    """Numbers of all replicas, for who looks on."""

    def __init__(self, replicas: Sequence[Scheduler]) -> None:
        self.replicas = replicas

    @property
    def count(self) -> int:
        return sum(one.decoding.count for one in self.replicas)

    @property
    def cached(self) -> int:
        return sum(one.decoding.cached for one in self.replicas)

    def needed(self, step: int) -> int:
        """Blocks that a step takes."""
        return sum(one.decoding.needed(step) for one in self.replicas)

    @property
    def blocks(self) -> int:
        return sum(one.pool.blocks for one in self.replicas)

    @property
    def free(self) -> int:
        return sum(one.pool.free for one in self.replicas)

    @property
    def block_size(self) -> int:
        return self.replicas[0].pool.block_size

    @property
    def hit(self) -> int:
        return sum(one.pool.hit for one in self.replicas)

    @property
    def queried(self) -> int:
        return sum(one.pool.queried for one in self.replicas)


class Group:
    """Replicas whose steps begin and end together."""

    prompts_first = False
    reserves = False
    paused_s = 0.0

    def __init__(self, replicas: Sequence[Scheduler], router: Router) -> None:
        self.replicas = replicas
        self.settings: Settings = replicas[0].settings
        self.waiting = Inbox(replicas, router)
        self.by_load = router.routing != "round-robin"
        self.decoding = self.pool = Total(replicas)
        self.line: Line = (0.0, 0.0, 0)
        self.open = False

    @property
    def ended(self) -> list[tuple[int, int]]:
        return [one for replica in self.replicas for one in replica.ended]

    @property
    def running(self) -> int:
        return sum(one.running for one in self.replicas)

    @property
    def again(self) -> bool:
        """Whether any replica plans anew."""
        return any(one.again for one in self.replicas)

    @property
    def full_s(self) -> float | None:
        return min((one.full_s for one in self.replicas if one.full_s is not None), default=None)

    @property
    def counts(self) -> Counts:
        return added(one.counts for one in self.replicas)

    @property
    def gaps(self) -> list[float]:
        return [gap for one in self.replicas for gap in one.gaps]

    @property
    def chunks(self) -> list[Chunk]:
        return [chunk for one in self.replicas for chunk in one.chunks]

    @property
    def completed(self) -> list[int]:
        return [request for one in self.replicas for request in one.completed]

    def promised(self) -> int:
        """Blocks come on demand."""
        return 0

    def known_tokens(self, request: int) -> int:
        """As any of the replicas knows it."""
        return max(one.known_tokens(request) for one in self.replicas)

    def settle(self, done: int) -> None:
        """Every replica's results."""
        for one in self.replicas:
            one.settle(done)

    def plan(self, step: int) -> int:
        """The slowest replica's step; who has nothing to do steps along."""
        steps = [one.plan(step) for one in self.replicas]
        busy = [one for one, count in zip(self.replicas, steps, strict=True) if count]
        if not busy:
            return 0
        # where it goes depends on who has what in hand when it arrives, not when somebody has room for it
        self.open = self.by_load or len(busy) < len(steps) or any(one.open for one in busy)
        slowest = max(busy, key=lambda one: one.line[0])
        cost, growth, _ = self.line = slowest.line
        if any(one.ended or one.waiting for one, count in zip(self.replicas, steps, strict=True) if not count):
            return 1  # it awaits results, and may have work in the next step
        return max(1, min(min(count for count in steps if count), *_overtaken(cost, growth, busy)))

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        """Every replica's."""
        return [request for one in self.replicas for request in one.passed(step, steps, end_s)]


def _overtaken(cost: float, growth: float, replicas: Iterable[Scheduler]) -> list[int]:
    """For each replica that slows down faster than the slowest: after how many steps it is the slowest."""
    lines = (one.line for one in replicas)
    return [1 << 60, *(int((cost - own) / (grows - growth)) + 1 for own, grows, _ in lines if grows > growth)]
