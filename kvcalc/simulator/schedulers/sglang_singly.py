"""SGLang request by request and step by step: priorities, and drafts of which a number is accepted.

Source: as in `sglang`, and schedule_policy.py (`_sort_by_priority_and_fcfs`): the queue is in the order of priorities,
then of who entered it; running requests are stopped for others from a difference of
`--priority-scheduling-preemption-threshold` on, which is not simulated.
"""

from kvcalc.errors import KvcalcError
from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.sglang import (
    CLIP,
    FIRST_RATIO,
    LEAST_SHARE,
    MAX_PREFILL_TOKENS,
    RATIO_DECAY,
    RETRACT_STEPS,
)
from kvcalc.simulator.schedulers.stepwise import StepwiseScheduler
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import StepTimes

STOPS_FROM = 10  # difference of priorities


class SglangSingly(StepwiseScheduler):
    """Steps are of prompts or of decode, never both."""

    prompts_first = True

    def __init__(
        self, settings: Settings, requests: Requests, times: StepTimes, pool: Pool | PrefixPool, seen: Times
    ) -> None:
        super().__init__(settings, requests, times, pool, seen)
        given = [priority for priority, _ in self.urgency]
        if max(given, default=0) - min(given, default=0) > STOPS_FROM:
            raise KvcalcError(
                f"SGLang stops running requests for one whose priority differs by more than {STOPS_FROM}",
                hint="that is not simulated: give the requests priorities nearer to each other",
            )
        self.ratio = FIRST_RATIO
        self.begun_s = 0.0

    def plan(self, step: int) -> int:
        """A batch of prompts if one can be formed, else everybody decodes."""
        self.stepping, self.begun_s = {}, self.end_s
        if not self.members:
            self.ratio = FIRST_RATIO
        self._prompts()
        if not self.stepping:
            self._make_room()
            for request in self._decoding():
                self._take(request, self.drafts.rows, self._lacking(request))
        return self._timed()

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        """The guess falls with every step that decodes; decode waits for prompts."""
        if self.chunks:
            self.paused_s += end_s - self.begun_s if self._decoding() else 0.0
        else:
            self.ratio = max(FIRST_RATIO * LEAST_SHARE, self.ratio - RATIO_DECAY)
            self.paused_s = 0.0
        return super().passed(step, steps, end_s)

    def _decoding(self) -> list[int]:
        """As they were admitted; the last tokens of some others are on the way."""
        return [one for one in self.members if one in self.decodes and self._left(one)]

    def _left(self, request: int) -> int:
        return self.requests.output[request] - self.generated[request]

    def _lacking(self, request: int) -> int:
        """Blocks that its next step takes."""
        return max(0, self._blocks(request, self.drafts.rows) - self.held[request])

    # Prompts

    def _prompts(self) -> None:
        """The unfinished prompt first, then from the queue's head while the guess allows it."""
        chunk, batch, partial = self.settings.max_num_batched_tokens, MAX_PREFILL_TOKENS, False
        for request in self.members:
            left = self.known_tokens(request) - self.computed[request]
            if request in self.decodes or not left:
                continue
            tokens = min(left, chunk)
            partial = tokens < left
            self._take(request, tokens, self._blocks(request, tokens) - self.held[request])
            chunk, batch = chunk - tokens, batch - tokens
        expected = sum(min(self._left(one), CLIP) for one in self._decoding())
        room = self.pool.free * self.settings.block_size - expected * self.ratio
        while (
            self.waiting and chunk > 0 and batch > 0 and not partial and len(self.members) < self.settings.max_num_seqs
        ):
            found = self._admitted(self.waiting[0], (chunk, batch), room)
            if found is None:
                return
            tokens, wanted, partial = found
            chunk, batch, room = chunk - tokens, batch - tokens, room - wanted

    def _admitted(self, request: int, budgets: tuple[int, int], room: float) -> tuple[int, int, bool] | None:
        """The queue's head: its tokens in this step, what it may come to need, and whether some are left over.

        `budgets`: tokens that the chunk has left, and all prompts of a step together.
        """
        pool, size, known = self.pool, self.settings.block_size, self.known_tokens(request)
        hits, idle = pool.found(request, known) if self.settings.prefix_caching else (0, 0)
        blocks = -(-known // size) + self.settings.extra_blocks - hits + idle
        wanted = blocks * size + min(self._left(request), CLIP)
        if blocks > pool.free or (self.members and wanted >= room):
            self._runs_out()
            return None
        new, (chunk, batch) = known - hits * size, budgets
        if self.stepping and new >= batch:
            return None  # as long as all that is left: it goes first in a batch of its own
        self.waiting.popleft()
        if self.settings.prefix_caching:
            pool.start(request, known, request in self.stopped)
        self.members.append(request)
        self.computed[request], self.held[request] = hits * size, hits
        tokens = min(new, chunk)
        self._take(request, tokens, self._blocks(request, tokens) - hits)
        return tokens, wanted, tokens < new

    # Decode

    def _make_room(self) -> None:
        """Where blocks lack, those with the fewest tokens out are stopped."""
        pool, size = self.pool, self.settings.block_size
        left = sorted(self._decoding(), key=lambda one: (-self.generated[one], self.requests.prompt[one]))
        needed = sum(map(self._lacking, left))
        if needed <= pool.free:
            return
        while left and (needed > pool.free or pool.free * size < len(left) * RETRACT_STEPS):
            if len(left) == 1 and needed <= pool.free:
                break
            stopped = left.pop()
            needed -= self._lacking(stopped)
            self._runs_out()
            self._stop(stopped)
        out = sum(self.generated[one] for one in left)
        most = sum(self.requests.output[one] for one in left)
        self.ratio = min(1.0, (out + RETRACT_STEPS * len(left)) / (most + 1))

    def _requeue(self, request: int) -> None:
        """It enters the queue anew."""
        self.waiting.append(request)
