"""How many replicas of one deployment a load needs: the fewest that keep the targets.

Latencies grow with the requests in flight, so the most that a replica may have is looked for between one that keeps the
targets and one that does not, and only as far as the number of replicas depends on it.
"""

from collections.abc import Iterable
from functools import cached_property
from math import ceil, floor
from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint, operating_point, running_at_once
from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.targets import Targets
from kvcalc.timing.serving import LARGEST_BATCH

NEAR = 1e-9  # of a replica: division leaves as much
NARROW = 8  # clients
EVEN_AFTER = 7  # points: the search then halves what is left
FIRST = 32  # clients to begin with, where a rate says nothing of them
MOST_STEP = 8.0  # times as many clients from one point to the next


class Point(NamedTuple):
    """A replica with so many clients."""

    clients: int
    seconds: float  # of a request, at the estimate's value
    tpot_s: float | None
    rate: float  # requests a second
    carried: float  # of the load
    uses: dict[str, float]  # of each target

    @property
    def kept(self) -> bool:
        return all(use <= 1 for use in self.uses.values())

    @property
    def tightest(self) -> float:
        return max(self.uses.values(), default=0.0)


class Fleet:
    """Replicas of one deployment under a load."""

    def __init__(self, deployed: Deployed, demand: Demand, targets: Targets) -> None:
        self.deployed, self.demand, self.targets = deployed, demand, targets
        self._points: dict[int, Point] = {}

    @cached_property
    def most(self) -> int:
        """Clients of a replica at most: those that run at once, unless a target says how long the others may wait."""
        waits = self.targets.waits and self.demand.request_rate is None
        return LARGEST_BATCH if self.room is None or waits else self.room

    @cached_property
    def room(self) -> int | None:
        """Requests that run at once; None: nothing limits them."""
        lengths = self.deployed.lengths
        assert lengths is not None
        return running_at_once(self.deployed, *lengths)

    @cached_property
    def _point(self) -> OperatingPoint:
        return operating_point(self.deployed)

    @property
    def points(self) -> Iterable[Point]:
        """All that were worked out."""
        return self._points.values()

    def take(self, points: Iterable[Point]) -> None:
        """Points that another process worked out."""
        self._points.update((point.clients, point) for point in points)

    def at(self, clients: int) -> Point:
        """A replica with so many clients, worked out once."""
        if clients not in self._points:
            speed = Performance(self.deployed, concurrency=clients, point=self._point)
            found = speed.steady
            assert found is not None
            seconds = float(found.whole_s(self.targets.output_len))
            tpot_s = None if found.tpot is None else float(found.tpot.value)
            carried = self._ranks * self.demand.carried(clients, seconds)
            rate = self._ranks * clients / seconds
            self._points[clients] = Point(clients, seconds, tpot_s, rate, carried, self.targets.uses(found))
        return self._points[clients]

    def fewest(self, guess: int | None = None) -> int | None:
        """Replicas; None: not even one client has the targets kept.

        Args:
            guess: clients at which to begin, as a like deployment has them.
        """
        kept: Point | None = None
        broken: Point | None = None
        while not self._decided(kept, broken):
            tried = self.at(self._next(kept, broken, guess))
            kept, broken = (tried, broken) if tried.kept else (kept, tried)
        return None if kept is None else self._replicas(kept)

    def _decided(self, kept: Point | None, broken: Point | None) -> bool:
        """Whether no number of clients between the two needs fewer replicas than the first."""
        if kept is None:
            return broken is not None and broken.clients == 1
        if self._replicas(kept) == 1 or kept.clients >= self.most:
            return True
        if broken is None:
            return False
        if broken.clients - kept.clients == 1:
            return True
        if self.demand.carries_clients:  # one client fewer than what breaks carries one less
            broken = broken._replace(carried=broken.carried - self._ranks)
        return self._replicas(broken) == self._replicas(kept)

    def _next(self, kept: Point | None, broken: Point | None, guess: int | None) -> int:
        """Clients to try: where the targets seem to be reached, as far as they are known."""
        if kept is None and broken is None:
            return self._first(guess)
        low, high = (0 if kept is None else kept.clients), (None if broken is None else broken.clients)
        if high is not None and len(self._points) > EVEN_AFTER:  # far from a straight line: halve
            return (low + high) // 2
        found = max(1, floor(self._reached(kept, broken)))
        if kept is None:
            assert broken is not None
            found = self._whole(found, broken.seconds)
        else:
            # Only where the number of replicas changes does it matter on which side of the targets a replica is.
            seconds = kept.seconds if broken is None else self._between(found, kept, broken)
            found = max(low + 1, self._whole(found, seconds, self._replicas(kept) - 1))
            if self.room is not None and low < self.room:  # with more, the first token waits: latencies bend there
                found = min(found, self.room)
        return max(low + 1, min(found, self.most if high is None else high - 1))

    def _whole(self, clients: int, seconds: float, most: int | None = None) -> int:
        """The clients that whole replicas have, as few as so many clients each need and at most so many."""
        replicas = ceil(self.demand.total / self._carried(clients, seconds) - NEAR)
        return self._clients(max(1, replicas if most is None else min(replicas, most)), seconds)

    def _first(self, guess: int | None) -> int:
        """As a like deployment has them, else as many as one replica would need, as far as they run at once."""
        wanted = guess or (self.demand.users if self.demand.users is not None else None) or FIRST
        return max(1, min(wanted, self.most, self.most if self.room is None else self.room))

    def _reached(self, kept: Point | None, broken: Point | None) -> float:
        """Clients at which a straight line reaches the targets: between two points, or from none."""
        if kept is not None and broken is not None:
            share = (1 - kept.tightest) / max(broken.tightest - kept.tightest, NEAR)
            return kept.clients + share * (broken.clients - kept.clients)
        if kept is not None:
            return kept.clients / max(kept.tightest, 1 / MOST_STEP)
        assert broken is not None
        over = sorted(point for point in self._points.values() if not point.kept)[:2]
        if len(over) == 2 and over[1].tightest > over[0].tightest:
            slope = (over[1].tightest - over[0].tightest) / (over[1].clients - over[0].clients)
            return over[0].clients - (over[0].tightest - 1) / slope
        return broken.clients / broken.tightest

    def _between(self, clients: int, kept: Point, broken: Point) -> float:
        """Seconds of a request, on the straight line between two points."""
        share = (clients - kept.clients) / (broken.clients - kept.clients)
        return kept.seconds + share * (broken.seconds - kept.seconds)

    def _carried(self, clients: int, seconds: float) -> float:
        return self._ranks * self.demand.carried(clients, seconds)

    def _clients(self, replicas: int, seconds: float) -> int:
        """Clients of each of so many replicas, if requests took so long."""
        return ceil(self.demand.in_flight(self.demand.total / replicas / self._ranks, seconds) - NEAR)

    @property
    def _ranks(self) -> int:
        return self.deployed.deployment.data_parallel_size

    def _replicas(self, point: Point) -> int:
        return max(1, ceil(self.demand.total / point.carried - NEAR))

    def share(self, replicas: int) -> int:
        """Clients of a replica where so many share the load: the fewest that carry its part."""
        if self.demand.carries_clients:
            return self._clients(replicas, 1.0)
        wanted = self.demand.total / replicas * (1 - NEAR)
        low, high = 0, 1
        while self.at(high).carried < wanted and high < LARGEST_BATCH:
            low, high = high, max(high + 1, self._clients(replicas, self.at(high).seconds))
        # Requests that take longer need more in flight: from below the steps are short, so the gap is small.
        while high - low > 1:
            middle = high - 1 if high - low < NARROW else (low + high) // 2
            low, high = (middle, high) if self.at(middle).carried < wanted else (low, middle)
        return high

    def largest(self) -> int:
        """Clients of a replica at most within the targets, which one client keeps."""
        kept = max(one.clients for one in self._points.values() if one.kept)
        broken = min((one.clients for one in self._points.values() if not one.kept), default=None)
        while broken is None and kept < self.most:
            tried = self.at(min(self.most, 2 * kept))
            kept, broken = (tried.clients, None) if tried.kept else (kept, tried.clients)
        while broken is not None and broken - kept > 1:
            low, high = self.at(kept), self.at(broken)
            reached = (1 - low.tightest) / max(high.tightest - low.tightest, NEAR)
            # From a straight line, a third at least from either end, so that the gap always shrinks.
            span = broken - kept
            middle = kept + min(span - 1, max(1, round(span * min(0.7, max(0.3, reached)))))
            kept, broken = (middle, broken) if self.at(middle).kept else (kept, middle)
        return kept
