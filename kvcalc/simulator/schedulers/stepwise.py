"""vLLM V1 request by request and step by step, for what no jump can pass over.

Several prompts that are computed in part (`long_prefill_token_threshold`), priorities, and drafts of which a number is
accepted that nobody knows ahead. Source: vllm/v1/core/sched/scheduler.py (`schedule`, `_preempt_request`) and
request_queue.py (`PriorityRequestQueue`) of 0.19.0. A step costs as much as it has requests.
"""

from collections import deque

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.drafts import Drafts
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.schedulers.base import NOTHING
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import Counts
from kvcalc.simulator.step_times import Chunk, StepTimes
from kvcalc.simulator.urgent import Urgent


class Decodes:
    """Numbers of the sequences that the planned step decodes."""

    def __init__(self) -> None:
        self.count = self.cached = 0

    def needed(self, step: int) -> int:
        """Blocks are taken as they are planned."""
        return 0


class StepwiseScheduler:
    """All of vLLM's rules, none of them ahead."""

    prompts_first = reserves = open = again = False
    paused_s = 0.0

    def __init__(
        self, settings: Settings, requests: Requests, times: StepTimes, pool: Pool | PrefixPool, seen: Times
    ) -> None:
        count = len(requests)
        self.settings, self.requests, self.times, self.pool, self.seen = settings, requests, times, pool, seen
        self.urgency = [(0, i) for i in range(count)]
        if settings.policy == "priority" and requests.priority is not None:
            self.urgency = [(requests.priority[i], i) for i in range(count)]
        self.waiting: deque[int] | Urgent = Urgent(self.urgency) if settings.policy == "priority" else deque()
        self.drafts = settings.drafts or Drafts(())
        self.give = self.drafts.giver()
        self.members: list[int] = []  # that run, as admitted; the last tokens of some are on the way
        self.computed = [0] * count  # tokens in the cache
        self.generated = [0] * count
        self.named = [0] * count  # tokens whose full blocks can be found: those that were known when last planned
        self.held = [0] * count  # blocks
        self.decodes: set[int] = set()  # all but the newest token of these is in the cache
        self.stopped: set[int] = set()  # at any time
        self.last: dict[int, float] = {}  # when a stopped request had its last token
        self.token_s = [0.0] * count  # when each had its newest token: a step may have no budget left for it
        self.ended: deque[tuple[int, int]] = deque()
        self.stepping: dict[int, int] = {}  # tokens of each request in the planned step
        self.decoding, self.counts = Decodes(), Counts()
        self.gaps: list[float] = []
        self.chunks: list[Chunk] = []
        self.completed: list[int] = []
        self.line = NOTHING
        self.full_s: float | None = None  # when blocks first ran out
        self.end_s = 0.0

    @property
    def running(self) -> int:
        return len(self.members)

    def promised(self) -> int:
        """Blocks come on demand."""
        return 0

    def known_tokens(self, request: int) -> int:
        """The prompt and what was generated."""
        return self.requests.prompt[request] + self.generated[request]

    def settle(self, done: int) -> None:
        """Results of all steps up to `done` are known."""
        while self.ended and self.ended[0][0] <= done:
            request = self.ended.popleft()[1]
            if request in self.members:  # else it was stopped meanwhile
                self.members.remove(request)
                self._release(request, returns=False)

    # A step

    def plan(self, step: int) -> int:
        """One step; 0: there is nothing to do."""
        self.stepping = {}
        budget, stopped = self._run_on(self.settings.max_num_batched_tokens)
        late = step % self.settings.prefill_schedule_interval and any(one in self.decodes for one in self.stepping)
        if not stopped and not late:
            self._admit(budget)
        self.again = stopped and not self.stepping
        return self._timed()

    def _timed(self) -> int:
        """The step that was put together, and what it takes."""
        if not self.stepping:
            self.chunks = []
            return 0
        decodes = [one for one in self.stepping if one in self.decodes]
        prompts = [one for one in self.stepping if one not in self.decodes]
        self.chunks = [(self.computed[one], self.stepping[one]) for one in prompts]
        self.completed = [one for one in prompts if self.computed[one] + self.stepping[one] == self.known_tokens(one)]
        cached = [self.computed[one] for one in decodes]
        self.decoding.count, self.decoding.cached = len(decodes), sum(cached)
        inside = [sum(min(one, window) for one in cached) for window in self.times.windows]
        if self.chunks:
            cost = self.times.mixed(len(decodes), self.decoding.cached, inside, self.chunks)
        else:
            cost = self.times.decode(len(decodes), self.decoding.cached, inside, [0] * len(inside))[0]
        self.line = cost, 0.0, 1
        return 1

    def _run_on(self, budget: int) -> tuple[int, bool]:
        """Running requests take from the budget; what is left of it, and whether anybody was stopped."""
        place, stopped = 0, False
        while place < len(self.members) and budget > 0:
            request = self.members[place]
            tokens = min(self._wanted(request), budget)
            if not tokens:
                place += 1
                continue
            blocks = self._blocks(request, tokens) - self.held[request]
            while blocks > self.pool.free:
                self._runs_out()
                victim = self._victim()
                stopped = True
                if self.members.index(victim) < place:
                    place -= 1
                budget += self.stepping.pop(victim, 0)
                self._stop(victim)
                if victim == request:
                    return budget, True
            self._take(request, tokens, blocks)
            budget -= tokens
            place += 1
        return budget, stopped

    def _wanted(self, request: int) -> int:
        """Rows that a running request would like."""
        if self.generated[request] >= self.requests.output[request]:
            return 0
        if request in self.decodes:
            return self.drafts.rows
        return self._capped(self.known_tokens(request) - self.computed[request])

    def _capped(self, tokens: int) -> int:
        most = self.settings.long_prefill_token_threshold
        return min(tokens, most) if most else tokens

    def _blocks(self, request: int, tokens: int) -> int:
        """That it holds when so many more are in the cache."""
        ahead = self.drafts.lookahead if request in self.decodes else 0
        whole = self.computed[request] + tokens + ahead
        return -(-whole // self.settings.block_size) + self.settings.extra_blocks

    def _take(self, request: int, tokens: int, blocks: int) -> None:
        if blocks > 0:
            self.pool.free -= blocks
            self.held[request] += blocks
        self.stepping[request] = tokens
        self.named[request] = min(self.computed[request] + tokens, self.known_tokens(request))
        if self.settings.prefix_caching and request not in self.decodes:
            self.pool.named(request, self.named[request])

    def _victim(self) -> int:
        return max(self.members, key=self.urgency.__getitem__) if self._by_priority else self.members[-1]

    @property
    def _by_priority(self) -> bool:
        return self.settings.policy == "priority"

    def _stop(self, request: int) -> None:
        self.counts.stopped(self.end_s)
        self.members.remove(request)
        ends = self.generated[request] >= self.requests.output[request]  # its last token is on the way
        if not ends:
            self.counts.recomputed += self.computed[request]
        self._release(request, returns=not ends)
        if ends:
            return
        if request in self.decodes:
            self.decodes.remove(request)
            self.last[request] = self.token_s[request]
        self.computed[request] = 0
        self.stopped.add(request)
        self._requeue(request)

    def _requeue(self, request: int) -> None:
        """Who was stopped waits at the head."""
        self.waiting.appendleft(request)

    def _release(self, request: int, returns: bool) -> None:
        self.pool.release(request, self.named[request], self.held[request], returns)
        self.held[request] = 0

    def _admit(self, budget: int) -> None:
        """From the head of the queue, none skipped, while it fits."""
        while self.waiting and budget > 0 and len(self.members) < self.settings.max_num_seqs:
            tokens = self._begin(self.waiting[0], budget)
            if not tokens:
                return
            budget -= tokens

    def _begin(self, request: int, budget: int) -> int:
        """The queue's head starts; its tokens in this step, 0: it has no room."""
        settings, pool, size = self.settings, self.pool, self.settings.block_size
        known = self.known_tokens(request)
        hits, idle = pool.found(request, known) if settings.prefix_caching else (0, 0)
        have = hits * size
        tokens = self._capped(known - have)
        if tokens > budget:
            if settings.whole_prompts and budget < settings.max_num_batched_tokens:
                return 0  # another step has more room
            tokens = budget
        asked = known if settings.whole_prompt_fits else have + tokens
        if not self._fits(request, -(-asked // size) + settings.extra_blocks - hits + idle):
            return 0
        self.waiting.popleft()
        if settings.prefix_caching:
            pool.start(request, known, request in self.stopped)
        self.members.append(request)
        self.computed[request], self.held[request] = have, hits
        self._take(request, tokens, self._blocks(request, tokens) - hits)
        return tokens

    def _fits(self, request: int, blocks: int) -> bool:
        """Whether so many blocks may be taken to start; where nobody may be stopped, all that will ever be needed."""
        kept = self.settings.watermark_blocks if self.members else 0
        fits = blocks <= self.pool.free - kept
        if fits and self.settings.answers_fit:
            fits = sum(map(self._at_most, (*self.members, request))) <= self.settings.num_blocks
        if not fits:
            self._runs_out()
        return fits

    def _at_most(self, request: int) -> int:
        """Blocks of a request in the step that gives its last token."""
        whole = self.requests.prompt[request] + self.requests.output[request] - 2
        return (
            -(-(whole + self.drafts.rows + self.drafts.lookahead) // self.settings.block_size)
            + self.settings.extra_blocks
        )

    def _runs_out(self) -> None:
        """Somebody lacks blocks."""
        self.full_s = self.end_s if self.full_s is None else self.full_s

    # Results

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        """The step ran; who had its last token."""
        self.end_s = end_s
        finished = []
        for request, tokens in self.stepping.items():
            if request in self.decodes:
                if request in self.last:  # it came from elsewhere with its cache
                    self.gaps.append(end_s - self.last.pop(request))
                given = min(self.give(request), self.requests.output[request] - self.generated[request])
                self.computed[request] += given
            else:
                self.computed[request] += tokens
                if self.computed[request] < self.known_tokens(request):
                    continue
                given = 1
                self.decodes.add(request)
                if request in self.last:
                    self.gaps.append(end_s - self.last.pop(request))
                else:
                    self.seen.first_s[request] = end_s
            self.generated[request] += given
            self.token_s[request] = end_s
            if self.generated[request] == self.requests.output[request]:
                self.seen.last_s[request] = end_s
                self.ended.append((step, request))
                finished.append(request)
        return finished
