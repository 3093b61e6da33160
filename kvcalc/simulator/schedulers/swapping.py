"""Preemption by swap, as the vLLM paper and vLLM V0 have it: blocks go to the host and come back as they were.

Source: Kwon et al. 2023, section 4.5: all blocks of a sequence or none; while any is swapped out, nobody new is
admitted; the swap space is bounded. Without room there the sequence is computed anew.
"""

from collections import deque

from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.vllm import VllmScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import pool_of
from kvcalc.simulator.step_times import StepTimes


class SwappingScheduler(VllmScheduler):
    """As vLLM's, with a second place for blocks; a step that moves some takes as much longer. Slots are kept."""

    holds_back = True

    def __init__(self, settings: Settings, requests: Requests, times: StepTimes, seen: Times) -> None:
        super().__init__(settings, requests, times, pool_of(settings), seen)
        self.swapped: deque[int] = deque()  # the oldest first
        self.tokens: dict[int, int] = {}  # of those, in their blocks
        self.left: dict[int, int] = {}  # and to come
        self.host_free = settings.swap_blocks
        self.moved = 0  # blocks, in the planned step
        self.restored: list[int] = []

    def plan(self, step: int) -> int:
        self.moved, self.restored = 0, []
        steps = super().plan(step)
        if not self.moved:
            return steps
        self.counts.swapped_blocks += self.moved
        cost, growth, until = self.line
        self.line = cost + self.moved * self.settings.swap_block_s, growth, until
        return min(steps, 1)

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        self.gaps += [end_s - self.last.pop(request) for request in self.restored]
        return super().passed(step, steps, end_s)

    def _equal_steps(self, step: int) -> int:
        steps = super()._equal_steps(step)
        if self.swapped:
            self.open = False
            return 1 if self.ended else steps
        return steps

    def _stop(self, request: int, step: int) -> None:
        """To the host, where there is room for it."""
        if request not in self.decoding.end:
            super()._stop(request, step)
            return
        left = self.decoding.end[request] - step + 1
        tokens = self.decoding.offset[request] + step
        blocks = self._blocks(tokens)
        if blocks > self.host_free:
            super()._stop(request, step)
            return
        self._runs_out()
        self.counts.stopped(self.end_s)
        self.decoding.leave(request, step)
        self.tokens[request], self.left[request] = tokens, left
        self.last[request] = self.end_s
        self.host_free -= blocks
        self.moved += blocks
        self._release(request, tokens, returns=True)
        self.swapped.appendleft(request)

    def _holds_back(self, step: int, stopped: bool) -> bool:
        """Bring back who is swapped out, the oldest first; nobody new while one is."""
        while self.swapped and not stopped:
            request = self.swapped[0]
            tokens = self.tokens[request]
            blocks = self._blocks(tokens + 1)
            if blocks > self.pool.free - (self.settings.watermark_blocks if self.decoding.count else 0):
                break
            self.swapped.popleft()
            self.pool.free -= blocks
            self.host_free += self._blocks(tokens)
            self.moved += self._blocks(tokens)
            self.stack.append(request)
            self.decoding.join(request, self.tokens.pop(request), step, self.left.pop(request))
            self.restored.append(request)
        return stopped or bool(self.swapped)
