"""Who arrives when: times that are known ahead, and requests that wait for an answer before they are sent."""

from collections.abc import Sequence
from heapq import heappop, heappush

from kvcalc.simulator.requests import Requests, Times

NEVER = float("inf")


class Arrivals:
    """The requests still to come of one replica, or of all.

    `front_s` is what lies between a client and the engine: a request reaches the engine so much after it is sent.
    """

    def __init__(self, requests: Requests, seen: Times, front_s: float = 0.0, order: list[int] | None = None) -> None:
        self.requests, self.seen, self.front_s = requests, seen, front_s
        self._arrival_s = requests.arrival_s
        self._order = range(len(requests)) if order is None else order
        self._at = 0  # of the order: sent by time, or by the next client that is free
        self._dynamic: list[tuple[float, int]] = []
        self._followers: dict[int, list[int]] = {}
        self._known_s = self.next_s = NEVER
        if requests.after is not None:
            self._order = [i for i in self._order if requests.after[i] < 0]
            for i in range(len(requests)):
                if requests.after[i] >= 0:
                    self._followers.setdefault(requests.after[i], []).append(i)
        self.listens = requests.clients is not None or bool(self._followers)  # to answers
        self._timed, self._count = requests.clients is None, len(self._order)
        self._look_ahead()
        if requests.clients is not None:
            for _ in range(min(requests.clients, len(self._order))):
                self._send_next(0.0)

    def _look_ahead(self) -> None:
        """Set when the next request reaches the engine; infinity: none that is known yet."""
        known = NEVER
        if self._timed and self._at < self._count:
            known = self._arrival_s[self._order[self._at]] + self.front_s
        self._known_s = self.next_s = known
        if self._dynamic and self._dynamic[0][0] < known:
            self.next_s = self._dynamic[0][0]

    def pop(self) -> int:
        """The next request."""
        if self._dynamic and self._dynamic[0][0] < self._known_s:
            request = heappop(self._dynamic)[1]
            self.next_s = min(self._known_s, self._dynamic[0][0]) if self._dynamic else self._known_s
            return request
        request = self._order[self._at]
        self.seen.sent_s[request] = self._arrival_s[request]
        self._at = at = self._at + 1
        if self._dynamic or at >= self._count:
            self._look_ahead()
        else:  # the usual case, once a request
            self._known_s = self.next_s = self._arrival_s[self._order[at]] + self.front_s
        return request

    def offer(self, request: int, sent_s: float) -> None:
        """One more request: it was sent at this time."""
        self._send(request, sent_s)

    def offered(self, now_s: float) -> int:
        """Requests that were sent by now and that the engine has not seen; who waits for a pause to end is none."""
        return sum(reaches_s <= now_s for reaches_s, _ in self._dynamic)

    def answered(self, requests: Sequence[int], end_s: float) -> float:
        """Requests had their last token: who waited for that is sent. Until when the engine may go on alone."""
        for request in requests:
            followers = self._followers.pop(request, None)
            if followers is not None:
                for follower in followers:
                    pause = self.requests.pause_s[follower] if self.requests.pause_s is not None else 0.0
                    self._send(follower, end_s + pause)
            elif self.requests.clients is not None:
                self._send_next(end_s + self.requests.think_s)
        return NEVER

    def _send_next(self, sent_s: float) -> None:
        if self._at < self._count:
            self._send(self._order[self._at], sent_s)
            self._at += 1

    def _send(self, request: int, sent_s: float) -> None:
        self.seen.sent_s[request] = sent_s
        heappush(self._dynamic, (sent_s + self.front_s, request))
        self.next_s = min(self._known_s, self._dynamic[0][0])
