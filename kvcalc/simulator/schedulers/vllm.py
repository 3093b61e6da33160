"""vLLM V1: one budget of tokens for decode and prompts, blocks on demand, the newest is stopped when they run out.

Source: vllm/v1/core/sched/scheduler.py (`schedule`, `_preempt_request`, `update_from_output`) and
kv_cache_manager.py (`allocate_slots`) of 0.19.0, with the rules that 0.24 adds. In the order of one step: running
requests as they were admitted, then, unless one was stopped, the head of the queue while budget, slots and blocks last.
"""

from collections import deque

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.decoding import Decoding
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import Counts, Work
from kvcalc.simulator.step_times import Chunk, Line, StepTimes


class VllmScheduler:
    """First come, first served, with at most one prompt that is computed in part."""

    def __init__(
        self, settings: Settings, requests: Requests, times: StepTimes, pool: Pool | PrefixPool, seen: Times
    ) -> None:
        self.settings, self.requests, self.times, self.pool, self.seen = settings, requests, times, pool, seen
        self.decoding = Decoding(settings.block_size, times.windows)
        self.waiting: deque[int] = deque()
        self.stack: list[int] = []  # running requests as admitted; some have ended
        self.running = 0
        self.partial: int | None = None
        self.computed: dict[int, int] = {}  # of requests whose prompt is in work
        self.known: dict[int, int] = {}  # tokens of a stopped request; of others the prompt
        self.last: dict[int, float] = {}  # when a stopped request had its last token
        self.ended: deque[tuple[int, int]] = deque()  # (step, request) of last tokens whose results are awaited
        self.unreleased: set[int] = set()
        self.completed: list[int] = []  # prompts that the planned step completes
        self.counts = Counts()
        self.gaps: list[float] = []  # between two tokens of a request that was stopped meanwhile
        self.blocked = False  # the queue's head lacks blocks, and none came free since
        self.rows_each = 1 + settings.draft_tokens
        self.end_s = 0.0

    # Results

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        decoding, counts = self.decoding, self.counts
        if steps > 1:
            self.pool.take(decoding.needed_over(step + 1, steps - 1))
        counts.steps += steps
        counts.slots += self.running * steps
        self.end_s = end_s
        decoding.advance(step + steps, steps)
        finished = []
        last = step + steps - 1
        while (request := decoding.pop_ended(last)) is not None:
            decoding.leave(request, last + 1)
            finished.append(request)
        finished += [request for request in self.completed if not self._decodes(request, last + 1)]
        for request in finished:
            self.seen.last_s[request] = end_s
            self.ended.append((last, request))
            self.unreleased.add(request)
        return finished

    def _decodes(self, request: int, step: int) -> bool:
        """A prompt is complete and gave a token; whether more are to come."""
        prompt = self.requests.prompt[request]
        known = self.known.pop(request, prompt)
        if known == prompt:
            self.seen.first_s[request] = self.end_s
        else:
            self.gaps.append(self.end_s - self.last.pop(request))
        left = self.requests.output[request] - (known - prompt) - 1
        if left:
            self.decoding.join(request, known, step, left)
        return left > 0

    def settle(self, done: int) -> None:
        ended = self.ended
        while ended and ended[0][0] <= done:
            request = ended.popleft()[1]
            if request in self.unreleased:  # else it was stopped while its last token was computed
                self.unreleased.remove(request)
                self.running -= 1
                self._release(request, self._length(request) - 1, returns=False)

    def _length(self, request: int) -> int:
        return self.requests.prompt[request] + self.requests.output[request]

    def _release(self, request: int, tokens: int, returns: bool) -> None:
        self.pool.release(request, tokens, self._blocks(tokens), returns)
        self.blocked = False

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.settings.block_size) + self.settings.extra_blocks

    # A step

    def plan(self, step: int) -> Work:
        decoding = self.decoding
        chunks: list[Chunk] = []
        self.completed = []
        stopped = self._make_room(step)
        budget = self.settings.max_num_batched_tokens - decoding.count * self.rows_each
        if self.partial is not None:
            budget -= self._continue(self.partial, budget, chunks)
        late = decoding.count and step % self.settings.prefill_schedule_interval
        if self.waiting and not stopped and not self.blocked and not late:
            self._admit(budget, chunks)
        if chunks:
            cost = self.times.mixed(decoding.count, decoding.cached, decoding.inside, chunks)
            return Work(Line(cost, 0.0), 1, tuple(chunks), False, decoding.count)
        if not decoding.count:
            return Work()
        line = self.times.decode(decoding.count, decoding.cached, decoding.inside, decoding.growing)
        return Work(line, self._equal_steps(step, line), (), self._open(), decoding.count)

    def _open(self) -> bool:
        """Whether a request that arrives might be admitted."""
        return not self.waiting and self.running < self.settings.max_num_seqs

    def _equal_steps(self, step: int, line: Line) -> int:
        """Steps until something changes by itself: an end, results that are awaited, a window, blocks."""
        decoding = self.decoding
        if self.ended or (self.waiting and not self.blocked and self.running < self.settings.max_num_seqs):
            return 1
        steps = min(decoding.next_end() - step + 1, line.steps)
        if decoding.windows:
            steps = min(steps, decoding.next_crossing() - step)
        free = self.pool.free
        if free < decoding.count * -(-steps // decoding.block_size):
            steps = min(steps, 1 + decoding.steps_within(step + 1, free))
        return max(1, steps)

    # Running requests

    def _make_room(self, step: int) -> bool:
        """Take this step's blocks, the newest stopped until they are there; whether any was."""
        decoding, pool, stopped = self.decoding, self.pool, False
        while (needed := decoding.needed(step)) > pool.free:
            self._stop(self._newest(), step)
            stopped = True
        pool.take(needed)
        if self.partial is not None:
            budget = self.settings.max_num_batched_tokens - decoding.count * self.rows_each
            have = self.computed[self.partial]
            new = self._blocks(have + self._next_tokens(self.partial, budget)) - self._blocks(have)
            if new > pool.free:
                self._stop(self._newest(), step)
                stopped = True
        return stopped

    def _newest(self) -> int:
        stack = self.stack
        while True:
            request = stack.pop()
            if request == self.partial or request in self.decoding.end or request in self.unreleased:
                return request

    def _stop(self, request: int, step: int) -> None:
        """All its blocks go back and it waits at the head, to be computed anew with what it has generated."""
        self.counts.preemptions += 1
        self.running -= 1
        if request in self.unreleased:  # its last token is on the way and will count
            self.unreleased.remove(request)
            self._release(request, self._length(request) - 1, returns=False)
            return
        if request == self.partial:
            tokens = self.computed.pop(request)
            self.partial = None
            self.known.setdefault(request, self.requests.prompt[request])
        else:
            left = self.decoding.end[request] - step + 1
            tokens = self.decoding.leave(request, step)
            self.known[request] = self._length(request) - left
            self.last[request] = self.end_s
        self.counts.recomputed += tokens
        self._release(request, tokens, returns=True)
        self.waiting.appendleft(request)

    def _next_tokens(self, request: int, budget: int) -> int:
        known = self.known.get(request) or self.requests.prompt[request]
        return min(known - self.computed[request], budget)

    def _continue(self, request: int, budget: int, chunks: list[Chunk]) -> int:
        """The next chunk of a prompt that is computed in part; its tokens."""
        tokens, have = self._next_tokens(request, budget), self.computed[request]
        if tokens:
            self.pool.take(self._blocks(have + tokens) - self._blocks(have))
            self._chunk(request, have, tokens, chunks)
        return tokens

    def _chunk(self, request: int, have: int, tokens: int, chunks: list[Chunk]) -> None:
        chunks.append((have, tokens))
        self.pool.named(request, have + tokens)
        if have + tokens == (self.known.get(request) or self.requests.prompt[request]):
            self.completed.append(request)
            self.computed.pop(request, None)
            self.partial = None
        else:
            self.computed[request] = have + tokens
            self.partial = request

    # Waiting requests

    def _admit(self, budget: int, chunks: list[Chunk]) -> None:
        """From the head of the queue, none skipped, while it fits."""
        settings, pool, waiting = self.settings, self.pool, self.waiting
        while waiting and budget > 0 and self.running < settings.max_num_seqs:
            request = waiting[0]
            resumed = request in self.known
            known = self.known[request] if resumed else self.requests.prompt[request]
            hits, idle = pool.found(request, known)
            have = hits * settings.block_size
            tokens = min(known - have, budget)
            asked = known if settings.whole_prompt_fits else have + tokens
            kept = settings.watermark_blocks if self.running else 0
            if self._blocks(asked) - hits + idle > pool.free - kept:
                self.blocked = True
                return
            waiting.popleft()
            pool.start(request, known, resumed)
            pool.take(self._blocks(have + tokens) - hits)
            self.running += 1
            self.stack.append(request)
            self._chunk(request, have, tokens, chunks)
            budget -= tokens
