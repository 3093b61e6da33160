"""Separate pools: replicas that compute prompts, a link, and replicas that decode, run side by side in time.

A client, or the next turn of a session, waits for the whole answer: so what the second pool ends sends requests to the
first. Whichever engine plans its next step first runs on, until another one plans or something arrives.
"""

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from math import inf, nextafter

from kvcalc.answers.simulate.machine import Simulated
from kvcalc.simulator.arrivals import Arrivals
from kvcalc.simulator.clock import Clock
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.routing import Router

Made = Callable[[Arrivals], Clock]  # an engine with these arrivals
TO_PROMPTS, TO_ANSWERS = 0, 1


class Handed(Arrivals):
    """Requests that come from elsewhere; what ends goes on from here."""

    def __init__(
        self, requests: Requests, seen: Times, front_s: float, ended: Callable[[Sequence[int], float], float]
    ) -> None:
        super().__init__(requests, seen, front_s, [])
        self.listens, self._ended = True, ended

    def answered(self, requests: Sequence[int], end_s: float) -> float:
        """Requests had their last token in this pool; what that sends may come back to it."""
        return self._ended(requests, end_s)


class Pools:
    """Both pools of a deployment, and the requests on their way."""

    def __init__(self, replica: Simulated, requests: Requests, seen: Times, homes: list[int | None]) -> None:
        self.replica, self.requests, self.seen, self.homes = replica, requests, seen, homes
        self.first = Times.of(len(requests))  # as the prompts' pool sees them
        self.own = Times(seen.sent_s[:], seen.first_s, seen.last_s)  # when it came to a pool is nobody's business
        self._events: list[tuple[float, int, int]] = []
        self._unsent: Iterator[int] = iter(())
        self._followers: dict[int, list[int]] = {}

    @property
    def alone(self) -> Requests:
        """The requests as the prompts' pool has them: a first token each, sent by who stands in front of it."""
        count = len(self.requests)
        return dataclasses.replace(self.requests, output=[1] * count, clients=None, after=None)

    @property
    def sent(self) -> Requests:
        """And as the other one has them."""
        return dataclasses.replace(self.requests, clients=None, after=None, chains=None)

    def prompts_arrive(self) -> Arrivals:
        """At one replica of the first pool."""
        return Handed(self.alone, self.first, self.replica.front_s, self._computed)

    def answers_arrive(self) -> Arrivals:
        """At one replica of the second."""
        return Handed(self.sent, self.own, 0.0, self._answered)

    def run(self, prompts: list[Clock], answers: list[Clock]) -> None:
        """All requests, from the first that is sent to the last answer."""
        self._begin()
        clocks, now = [*prompts, *answers], 0.0
        routers = [
            Router(self.replica.routing, [clock.scheduler for clock in pool], homes,
                   lambda number, pool=pool: pool[number].arrivals.offered(now))  # type: ignore[misc]
            for pool, homes in ((prompts, self.homes), (answers, [None] * len(self.requests)))
        ]  # fmt: skip
        while True:
            event_s = self._next_event_s
            next_s, number = min((clock.next_s, number) for number, clock in enumerate(clocks))
            if next_s < event_s:
                others = min(clock.next_s for one, clock in enumerate(clocks) if one != number)
                clocks[number].run(max(min(event_s, others), nextafter(next_s, inf)))
            elif event_s < inf:
                at, pool, request = heappop(self._events)
                now = at
                chosen = (prompts, answers)[pool][routers[pool].choose(request)]
                chosen.arrivals.offer(request, at - (self.replica.front_s if pool == TO_PROMPTS else 0.0))
            else:
                return

    def _begin(self) -> None:
        requests = self.requests
        after = requests.after or [-1] * len(requests)
        for request, before in enumerate(after):
            if before >= 0:
                self._followers.setdefault(before, []).append(request)
        everybody = [i for i, before in enumerate(after) if before < 0]
        if requests.clients is None:
            for request in everybody:
                self._send(request, requests.arrival_s[request])
            return
        self._unsent = iter(everybody)
        for _ in range(requests.clients * self.replica.replicas):
            self._send_next(0.0)

    def _send(self, request: int, sent_s: float) -> None:
        self.seen.sent_s[request] = sent_s
        heappush(self._events, (sent_s + self.replica.front_s, TO_PROMPTS, request))

    def _send_next(self, sent_s: float) -> None:
        request = next(self._unsent, None)
        if request is not None:
            self._send(request, sent_s)

    def _computed(self, requests: Sequence[int], end_s: float) -> float:
        """Prompts gave their first tokens: their caches go over the link, unless that was all."""
        for request in requests:
            self.seen.first_s[request] = end_s
            if self.requests.output[request] == 1:
                self.seen.last_s[request] = end_s
                self._answered([request], end_s)
            else:
                over_s = self.replica.transfer_s * self.requests.prompt[request]
                heappush(self._events, (end_s + over_s, TO_ANSWERS, request))
        return self._next_event_s

    def _answered(self, requests: Sequence[int], end_s: float) -> float:
        """Who waited for an answer sends what it sends next."""
        for request in requests:
            followers = self._followers.pop(request, None)
            if followers is not None:
                for follower in followers:
                    pause_s = 0.0 if self.requests.pause_s is None else self.requests.pause_s[follower]
                    self._send(follower, end_s + pause_s)
            elif self.requests.clients is not None:
                self._send_next(end_s + self.requests.think_s)
        return self._next_event_s

    @property
    def _next_event_s(self) -> float:
        return self._events[0][0] if self._events else inf
