"""Which replica a request goes to: round robin, the least loaded, or where its prefix is.

Least loaded is vLLM's own balancer (vllm/v1/engine/core_client.py): the smallest 4 · waiting + running. By prefix:
where the request's first shared segment went before, unless that replica has `MOST_BEHIND` more in hand than another.
"""

from collections.abc import Callable, Sequence
from typing import Literal

from kvcalc.simulator.state import Scheduler

Routing = Literal["round-robin", "least-loaded", "prefix-aware"]
WAITING_WEIGHT = 4
MOST_BEHIND = 64  # in the unit of the load below


class Router:
    """Chooses by what the replicas have in hand."""

    def __init__(
        self, routing: Routing, replicas: Sequence[Scheduler], homes: Sequence[int | None],
        on_the_way: Callable[[int], int] = lambda replica: 0,
    ) -> None:  # fmt: skip
        """`homes`: what each request shares first with others; `on_the_way`: requests sent that are in no queue yet."""
        self.routing, self.replicas, self.homes, self.on_the_way = routing, replicas, homes, on_the_way
        self.turn = -1
        self._home: dict[int, int] = {}

    def choose(self, request: int) -> int:
        """The replica of a request that arrives now."""
        if self.routing == "round-robin":
            self.turn = (self.turn + 1) % len(self.replicas)
            return self.turn
        loads = [
            WAITING_WEIGHT * (len(one.waiting) + self.on_the_way(number)) + one.running
            for number, one in enumerate(self.replicas)
        ]
        least = min(range(len(loads)), key=loads.__getitem__)
        shared = self.homes[request] if self.routing == "prefix-aware" else None
        if shared is None:
            return least
        home = self._home.get(shared)
        if home is None or loads[home] > loads[least] + MOST_BEHIND:
            home = self._home[shared] = least
        return home
