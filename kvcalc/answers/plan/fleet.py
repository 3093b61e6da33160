"""How many replicas of one deployment a load needs: the fewest that keep the targets.

Latencies grow with the requests in flight, so the most that a replica may have is looked for between one that keeps the
targets and one that does not, and only as far as the number of replicas depends on it.
"""

from functools import cached_property
from math import ceil, floor
from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import running_at_once
from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.targets import Targets
from kvcalc.timing.serving import LARGEST_BATCH

NEAR = 1e-9  # of a replica: division leaves as much
EVEN_AFTER = 6  # points: the search then halves what is left


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

    def at(self, clients: int) -> Point:
        """A replica with so many clients, worked out once."""
        if clients not in self._points:
            speed = Performance(self.deployed, concurrency=clients)
            found = speed.steady
            assert found is not None
            seconds = float(found.whole_s(self.targets.output_len))
            tpot_s = None if found.tpot is None else float(found.tpot.value)
            carried = self._ranks * self.demand.carried(clients, seconds)
            rate = self._ranks * clients / seconds
            self._points[clients] = Point(clients, seconds, tpot_s, rate, carried, self.targets.uses(found))
        return self._points[clients]

    def fewest(self) -> int | None:
        """Replicas; None: not even one client has the targets kept."""
        kept, broken = self.at(1), None
        if not kept.kept:
            return None
        while self._replicas(kept) > 1 and kept.clients < self.most:
            if broken is not None and self._decided(kept, broken):
                break
            tried = self.at(self._next(kept, broken))
            kept, broken = (tried, broken) if tried.kept else (kept, tried)
        return self._replicas(kept)

    def _decided(self, kept: Point, broken: Point) -> bool:
        """Whether every number of clients between the two needs as many replicas."""
        if broken.clients - kept.clients == 1:
            return True
        if self.demand.carries_clients:  # one client fewer than what breaks carries one less
            return self._replicas(broken._replace(carried=broken.carried - self._ranks)) == self._replicas(kept)
        return self._replicas(broken) == self._replicas(kept)

    def _next(self, kept: Point, broken: Point | None) -> int:
        """Clients to try: as many as one replica would need, else where the targets seem to be reached."""
        if broken is None:
            wanted = max(self._clients(1, kept.seconds), kept.clients + 1)
            # With more than run at once the first token waits: latencies bend there.
            room = self.room if self.room is not None and kept.clients < self.room else wanted
            return min(self.most, wanted, room)
        span = broken.clients - kept.clients
        if len(self._points) > EVEN_AFTER:  # far from a straight line: halve
            return kept.clients + span // 2
        reached = (1 - kept.tightest) / max(broken.tightest - kept.tightest, NEAR)
        guess = min(broken.clients - 1, kept.clients + max(1, floor(reached * span)))
        # Only where the number of replicas changes does it matter on which side of the targets a replica is.
        like = self._between(guess, kept, broken)
        fewer = min(ceil(self.demand.total / self._carried(guess, like) - NEAR), self._replicas(kept) - 1)
        found = self._clients(max(1, fewer), like)
        return found if kept.clients < found < broken.clients else guess

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
        wanted = self.demand.total / replicas * (1 - NEAR)
        low, high = 0, 1
        while self.at(high).carried < wanted and high < LARGEST_BATCH:
            low, high = high, max(high + 1, self._clients(replicas, self.at(high).seconds))
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.at(middle).carried < wanted else (low, middle)
        return high

    def largest(self, start: int) -> int:
        """Clients of a replica at most within the targets, from a number that keeps them on."""
        low, high = start, None
        while high is None and low < self.most:
            tried = min(self.most, 2 * low)
            low, high = (tried, None) if self.at(tried).kept else (low, tried)
        while high is not None and high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self.at(middle).kept else (low, middle)
        return low
