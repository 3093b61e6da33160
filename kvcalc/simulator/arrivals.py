"""Who arrives when: times that are known ahead, and requests that wait for an answer before they are sent."""

from heapq import heappop, heappush

from kvcalc.simulator.requests import Requests, Times

NEVER = float("inf")


class Arrivals:
    """The requests still to come of one replica, or of all.

    `front_s` is what lies between a client and the engine: a request reaches the engine so much after it is sent.
    """

    def __init__(self, requests: Requests, seen: Times, front_s: float = 0.0, order: list[int] | None = None) -> None:
        self.requests, self.seen, self.front_s = requests, seen, front_s
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
            known = self.requests.arrival_s[self._order[self._at]] + self.front_s
        self._known_s = known
        self.next_s = min(known, self._dynamic[0][0]) if self._dynamic else known

    def pop(self) -> int:
        """The next request."""
        if self._dynamic and self._dynamic[0][0] < self._known_s:
            request = heappop(self._dynamic)[1]
        else:
            request = self._order[self._at]
            self._at += 1
            self.seen.sent_s[request] = self.requests.arrival_s[request]
        self._look_ahead()
        return request

    def offer(self, request: int, sent_s: float) -> None:
        """One more request: it was sent at this time."""
        self._send(request, sent_s)

    @property
    def offered(self) -> int:
        """Requests that were sent and have not reached the engine."""
        return len(self._dynamic)

    def answered(self, request: int, end_s: float) -> None:
        """A request had its last token: who waited for that is sent."""
        followers = self._followers.pop(request, None)
        if followers is None:
            if self.requests.clients is not None:
                self._send_next(end_s + self.requests.think_s)
            return
        for follower in followers:
            pause = self.requests.pause_s[follower] if self.requests.pause_s is not None else 0.0
            self._send(follower, end_s + pause)

    def _send_next(self, sent_s: float) -> None:
        if self._at < self._count:
            self._send(self._order[self._at], sent_s)
            self._at += 1

    def _send(self, request: int, sent_s: float) -> None:
        self.seen.sent_s[request] = sent_s
        heappush(self._dynamic, (sent_s + self.front_s, request))
        self.next_s = min(self._known_s, self._dynamic[0][0])
