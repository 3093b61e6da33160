"""Orca: continuous batching with a contiguous cache that is reserved at admission, so that nobody is ever stopped.

Source: Yu et al. 2022 (Orca); Kwon et al. 2023, section 6.1 for the three lengths that are reserved.
"""

from kvcalc.simulator.contiguous import Buddies, Equal, Reservation, reserved_tokens
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.base import Running
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import pool_of
from kvcalc.simulator.step_times import StepTimes


class ReservingScheduler(Running):
    """First come, first served: a request starts when a slot and a region of its reserved length are free."""

    reserves = True
    on_demand = False

    def __init__(self, settings: Settings, requests: Requests, times: StepTimes, seen: Times,
                 reservation: Reservation, longest: int) -> None:  # fmt: skip
        super().__init__(settings, requests, times, pool_of(settings), seen)
        slots = settings.num_blocks * settings.block_size
        self.memory = Equal(slots, longest) if reservation == "max" else Buddies(slots)
        self.reservation, self.longest = reservation, longest
        self.regions: dict[int, tuple[int, int]] = {}
        self.final = 0  # tokens that the running requests will have

    def _length(self, request: int) -> int:
        return self.prompt[request] + self.output[request]

    def _release(self, request: int, tokens: int, returns: bool) -> None:
        region = self.regions.pop(request)
        self.memory.release(region)
        self.final -= self._length(request)
        self._count()
        self.blocked = False

    def promised(self) -> int:
        return self.final

    def _count(self) -> None:
        """The pool's blocks in use, for who looks on."""
        self.pool.free = self.pool.blocks - -(-(self.memory.slots - self.memory.free) // self.block_size)

    def plan(self, step: int) -> int:
        decoding = self.decoding
        self.chunks, self.completed = [], []
        budget = self.settings.max_num_batched_tokens - decoding.count
        if self.partial is not None:
            budget -= self._part(self.partial, self.computed, budget)
        while self.waiting and not self.blocked and budget > 0 and self.running < self.slots:
            head = self.waiting[0]
            wanted = reserved_tokens(self.reservation, self.prompt[head], self.output[head], self.longest)
            region = self.memory.allocate(wanted)
            if region is None:
                self.blocked = True
                self._runs_out()
                break
            request = self.waiting.popleft()
            self.regions[request] = region
            self.final += self._length(request)
            self.running += 1
            budget -= self._part(request, 0, budget)
        self._count()
        return self._timed(step)

    def _part(self, request: int, have: int, budget: int) -> int:
        tokens = min(self.prompt[request] - have, budget)
        if tokens:
            self._chunk(request, have, tokens, self.prompt[request])
        return tokens

    def _timed(self, step: int) -> int:
        decoding = self.decoding
        if self.chunks:
            self.line = self.times.mixed(decoding.count, decoding.cached, decoding.inside, self.chunks), 0.0, 1
            return 1
        if not decoding.count:
            return 0
        self.line = self.times.decode(decoding.count, decoding.cached, decoding.inside, decoding.growing)
        self.open = not self.waiting and self.running < self.slots
        if self.ended:
            return 1
        steps = min(decoding.first_end - step + 1, self.line[2])
        return min(steps, decoding.next_crossing() - step) if decoding.windows else steps
