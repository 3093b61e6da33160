"""SGLang: prompts first, decode waits; admission guesses how much of their answers the running requests will need.

Source: sglang/srt/managers/scheduler.py (`get_next_batch_to_run`, `update_running_batch`), schedule_policy.py
(`PrefillAdder`) and schedule_batch.py (`retract_decode`). First come, first served, mixed chunks off.
"""

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.base import Running
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.step_times import StepTimes

MAX_PREFILL_TOKENS = 16_384  # of one batch of prompts
CLIP = 4096  # tokens of an answer that admission looks ahead at most
FIRST_RATIO, LEAST_SHARE, DECAY_STEPS = 0.7, 0.14, 600  # of the guess: where it begins, ends, and how fast it falls
RATIO_DECAY = FIRST_RATIO * (1 - LEAST_SHARE) / DECAY_STEPS
RETRACT_STEPS = 20  # tokens that must be free for every sequence left after somebody was stopped


class SglangScheduler(Running):
    """Steps are of prompts or of decode, never both: decode has a count of its own."""

    prompts_first = True

    def __init__(
        self, settings: Settings, requests: Requests, times: StepTimes, pool: Pool | PrefixPool, seen: Times
    ) -> None:
        super().__init__(settings, requests, times, pool, seen)
        self.ratio = FIRST_RATIO
        self.decoded = 0  # decode steps so far
        self.decoded_s = 0.0  # when the last of them ended
        self.since: dict[int, float] = {}  # who had a first token after it, and when
        self.clips = max(requests.output, default=0) > CLIP

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        self.end_s = end_s
        decoding = self.decoding
        if self.chunks:
            self.paused_s += end_s - self.begun_s if decoding.count else 0.0
            finished = [request for request in self.completed if not self._decodes(request, self.decoded)]
            self.since.update(dict.fromkeys(self.completed, end_s))
        else:
            if steps > 1:
                self.pool.free -= decoding.needed_over(self.decoded + 1, steps - 1)
            self.decoded += steps
            decoding.advance(self.decoded, steps)
            finished = decoding.ended(self.decoded)
            self.ratio = max(FIRST_RATIO * LEAST_SHARE, self.ratio - steps * RATIO_DECAY)
            self.paused_s, self.decoded_s = 0.0, end_s
            self.since.clear()
        return self._record(finished, step + steps)

    def plan(self, step: int) -> int:
        decoding = self.decoding
        self.chunks, self.completed, self.begun_s = [], [], self.end_s
        if not self.running:
            self.ratio = FIRST_RATIO
        self._prompts()
        if self.chunks:
            self.line = self.times.mixed(0, 0, [0] * len(decoding.inside), self.chunks), 0.0, 1
            return 1
        self._make_room()
        if not decoding.count:
            return 0
        self.line = self.times.decode(decoding.count, decoding.cached, decoding.inside, decoding.growing)
        return self._equal_steps()

    def _equal_steps(self) -> int:
        """As vLLM's, but that who waits for memory may be admitted in any step: the guess falls."""
        decoding, step = self.decoding, self.decoded
        free_slots = self.running < self.slots
        self.open = free_slots and not self.waiting
        if self.ended or (self.waiting and free_slots):
            return 1
        steps = min(decoding.first_end - step + 1, self.line[2])
        if decoding.windows:
            steps = min(steps, decoding.next_crossing() - step)
        free = self.pool.free
        if free < decoding.count * (steps // self.block_size + 1):
            steps = min(steps, 1 + decoding.steps_within(step + 1, free, steps))
        return max(1, steps)

    # Prompts

    def _prompts(self) -> None:
        """A batch of prompts: the unfinished one first, then from the queue's head while the guess allows it."""
        size = self.block_size
        chunk, batch = self.settings.max_num_batched_tokens, MAX_PREFILL_TOKENS
        if self.partial is not None:
            tokens = min(self.known_tokens(self.partial) - self.computed, chunk)
            self.pool.free -= self._blocks(self.computed + tokens) - self._blocks(self.computed)
            self._chunk(self.partial, self.computed, tokens, self.known_tokens(self.partial))
            chunk, batch = chunk - tokens, batch - tokens
        room = self.pool.free * size - self._expected() * self.ratio
        while self.waiting and chunk > 0 and batch > 0 and self.partial is None and self.running < self.slots:
            request = self.waiting[0]
            known = self.known_tokens(request)
            hits, idle = self.pool.found(request, known)
            new, left = known - hits * size, self.output[request] - (known - self.prompt[request])
            blocks = self._blocks(known) - hits + idle
            wanted = blocks * size + min(left, CLIP)
            if blocks > self.pool.free or (self.running and wanted >= room):
                self._runs_out()
                return
            if self.chunks and new >= batch:
                return  # as long as all that is left: it goes first in a batch of its own
            self.waiting.popleft()
            self._start(request, known, hits)
            tokens = min(new, chunk)
            self.pool.free -= self._blocks(hits * size + tokens) - hits
            self._chunk(request, hits * size, tokens, known)
            chunk, batch, room = chunk - tokens, batch - tokens, room - wanted

    def _start(self, request: int, known: int, hits: int) -> None:
        if self.settings.prefix_caching:
            self.pool.start(request, known, request in self.known)
        self.running += 1
        self.stack.append(request)
        self.admitted[request] = self.serial
        self.serial += 1

    def _expected(self) -> int:
        """Tokens that the running requests may still generate, each clipped."""
        decoding, step = self.decoding, self.decoded
        if not self.clips:
            return decoding.ends_total - decoding.count * (step - 1)
        return sum(min(end - step + 1, CLIP) for end in decoding.end.values())

    # Decode

    def _make_room(self) -> None:
        """Blocks of a decode step; where they lack, those with the fewest tokens out are stopped."""
        decoding, pool, step = self.decoding, self.pool, self.decoded
        needed = decoding.needed(step)
        if needed <= pool.free:
            pool.free -= needed
            return
        order = sorted(decoding.end, key=lambda one: (-self._out(one), self.prompt[one]))
        while order and (decoding.needed(step) > pool.free or pool.free * self.block_size < len(order) * RETRACT_STEPS):
            if len(order) == 1 and decoding.needed(step) <= pool.free:
                break
            self._retract(order.pop())
        out = sum(self._out(one) for one in order)
        most = sum(self.output[one] for one in order)
        self.ratio = min(1.0, (out + RETRACT_STEPS * len(order)) / (most + 1))
        pool.free -= decoding.needed(step)

    def _out(self, request: int) -> int:
        return self.output[request] - (self.decoding.end[request] - self.decoded + 1)

    def _retract(self, request: int) -> None:
        """To the tail of the queue, to be computed anew with what it has generated."""
        self._runs_out()
        self.counts.stopped(self.end_s)
        self.running -= 1
        self.known[request] = self.prompt[request] + self._out(request)
        tokens = self.decoding.leave(request, self.decoded)
        self.last[request] = self.since.get(request, self.decoded_s)
        self.counts.recomputed += tokens
        self._release(request, tokens, returns=True)
        self.waiting.append(request)
