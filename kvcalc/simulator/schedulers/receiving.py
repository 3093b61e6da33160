"""The decode side of two pools: prompts come computed, over a link, and need only blocks and a slot.

Who is stopped there is computed anew there, prompt and all (vLLM's decode instances do the same).
"""

from collections import deque

from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.stepwise import StepwiseScheduler
from kvcalc.simulator.schedulers.vllm import VllmScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import pool_of
from kvcalc.simulator.step_times import StepTimes


class ReceivingScheduler(VllmScheduler):
    """As vLLM's, but a request that was never stopped begins with its second token."""

    def __init__(self, settings: Settings, requests: Requests, times: StepTimes, seen: Times) -> None:
        super().__init__(settings, requests, times, pool_of(settings), seen)
        self.step = 0
        self.joined: list[int] = []

    def plan(self, step: int) -> int:
        self.step, self.joined = step, []
        steps = super().plan(step)
        return min(steps, 1) if self.joined else steps

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        self.gaps += [end_s - self.seen.first_s[request] for request in self.joined]
        return super().passed(step, steps, end_s)

    def _admit(self, budget: int) -> None:
        while self.waiting and self.running < self.slots and budget > 0 and self.partial is None:
            request = self.waiting[0]
            tokens = self._anew(request, budget) if request in self.known else self._received(request)
            if not tokens:
                return
            budget -= tokens

    def _anew(self, request: int, budget: int) -> int:
        """Who was stopped is a prompt like any other; its tokens in this step."""
        everybody, self.waiting = self.waiting, deque([request])
        super()._admit(budget)
        admitted, self.waiting = not self.waiting, everybody
        if not admitted:
            return 0
        everybody.popleft()
        return self.chunks[-1][1]

    def _received(self, request: int) -> int:
        """One row in this step already; 0: it has no room."""
        blocks = self._blocks(self.prompt[request] + 1)
        if blocks > self.pool.free - (self.settings.watermark_blocks if self.running else 0):
            self.blocked = True
            self._runs_out()
            return 0
        self.waiting.popleft()
        self.pool.free -= blocks
        self.running += 1
        self.stack.append(request)
        self.decoding.join(request, self.prompt[request], self.step, self.output[request] - 1)
        self.joined.append(request)
        return 1


class ReceivingSingly(StepwiseScheduler):
    """The same step by step: with drafts, priorities, a threshold for who is stopped, or room for whole answers."""

    def __init__(self, settings: Settings, requests: Requests, times: StepTimes, seen: Times) -> None:
        super().__init__(settings, requests, times, pool_of(settings), seen)

    def _begin(self, request: int, budget: int) -> int:
        if request in self.stopped:
            return super()._begin(request, budget)
        rows = self.drafts.rows
        whole = self.requests.prompt[request] + rows + self.drafts.lookahead
        blocks = -(-whole // self.settings.block_size) + self.settings.extra_blocks
        if not self._fits(request, blocks):
            return 0
        self.waiting.popleft()
        self.members.append(request)
        self.decodes.add(request)
        self.computed[request], self.generated[request] = self.requests.prompt[request], 1
        self.last[request] = self.seen.first_s[request]
        self._take(request, min(rows, budget), blocks)
        return min(rows, budget)
