"""vLLM V1: one budget of tokens for decode and prompts, blocks on demand, the newest is stopped when they run out.

Source: vllm/v1/core/sched/scheduler.py (`schedule`, `_preempt_request`, `update_from_output`) and
kv_cache_manager.py (`allocate_slots`) of 0.19.0, with the rules that 0.24 adds. In the order of one step: running
requests as they were admitted, then, unless one was stopped, the head of the queue while budget, slots and blocks last.
"""

from kvcalc.simulator.schedulers.base import Running


class VllmScheduler(Running):
    """First come, first served, with at most one prompt that is computed in part."""

    holds_back = False  # it asks `_holds_back` whom else nobody may pass

    # A step

    def plan(self, step: int) -> int:
        decoding, settings = self.decoding, self.settings
        if self.chunks:
            self.chunks, self.completed = [], []
        needed = decoding.classes[-step % self.block_size]
        if self.partial is None and needed <= self.pool.free:
            stopped = False
            if needed:
                self.pool.free -= needed
        else:
            stopped = self._make_room(step)
        if self.holds_back:
            stopped = self._holds_back(step, stopped)
        if self.partial is not None or (self.waiting and not stopped and not self.blocked):
            budget = settings.max_num_batched_tokens - decoding.count
            if self.partial is not None:
                budget -= self._continue(self.partial, budget)
            late = decoding.count and step % settings.prefill_schedule_interval
            if self.waiting and not stopped and not late:
                self._admit(budget)
            if self.chunks:
                cost = self.times.mixed(decoding.count, decoding.cached, decoding.inside, self.chunks)
                self.line = cost, 0.0, 1
                return 1
        if not decoding.count:
            return 0
        self.line = self.times.decode(decoding.count, decoding.cached, decoding.inside, decoding.growing)
        return self._equal_steps(step)

    def _equal_steps(self, step: int) -> int:
        """Steps until something changes by itself: an end, results that are awaited, a window, blocks."""
        decoding = self.decoding
        free_slots = self.running < self.slots
        self.open = free_slots and not self.waiting
        if self.waiting:
            if self.ended or (free_slots and not self.blocked):
                return 1
        elif self.ended and not free_slots:
            return 1
        steps, until = decoding.first_end - step + 1, self.line[2]
        if steps > until:
            steps = until
        if decoding.windows:
            steps = min(steps, decoding.next_crossing() - step)
        free = self.pool.free
        if free < decoding.count * (steps // self.block_size + 1):
            steps = min(steps, 1 + decoding.steps_within(step + 1, free, steps))
        return steps if steps > 1 else 1

    def _holds_back(self, step: int, stopped: bool) -> bool:
        """Whether nobody is admitted: the step stopped somebody."""
        return stopped

    # Running requests

    def _make_room(self, step: int) -> bool:
        """Take this step's blocks, the newest stopped until they are there; whether any was."""
        decoding, pool, stopped = self.decoding, self.pool, False
        while (needed := decoding.classes[-step % self.block_size]) > pool.free:
            self._stop(self._newest(), step)
            stopped = True
        if needed:
            pool.free -= needed
        if self.partial is not None:
            budget = self.settings.max_num_batched_tokens - decoding.count
            new = self._blocks(self.computed + self._next_tokens(self.partial, budget)) - self._blocks(self.computed)
            if new > pool.free:
                self._stop(self._newest(), step)
                stopped = True
        return stopped

    def _newest(self) -> int:
        stack = self.stack
        while True:
            request = stack.pop()
            if request == self.partial or request in self.decoding.end or self._in_flight(request):
                return request

    def _in_flight(self, request: int) -> bool:
        """Its last token is computed, but not known yet."""
        return request not in self.dropped and any(request == one for _, one in self.ended)

    def _stop(self, request: int, step: int) -> None:
        """All its blocks go back and it waits at the head, to be computed anew with what it has generated."""
        self._runs_out()
        self.counts.stopped(self.end_s)
        self.running -= 1
        if self._in_flight(request):  # its last token will count
            self.dropped.add(request)
            self._release(request, self.prompt[request] + self.output[request] - 1, returns=False)
            return
        if request == self.partial:
            tokens, self.partial = self.computed, None
            self.known.setdefault(request, self.prompt[request])
        else:
            left = self.decoding.end[request] - step + 1
            tokens = self.decoding.leave(request, step)
            self.known[request] = self.prompt[request] + self.output[request] - left
            self.last[request] = self.end_s
        self.counts.recomputed += tokens
        self._release(request, tokens, returns=True)
        self.waiting.appendleft(request)

    def _next_tokens(self, request: int, budget: int) -> int:
        known = self.known_tokens(request)
        return min(known - self.computed, budget)

    def _continue(self, request: int, budget: int) -> int:
        """The next chunk of a prompt that is computed in part; its tokens."""
        tokens, have = self._next_tokens(request, budget), self.computed
        if tokens:
            self.pool.free -= self._blocks(have + tokens) - self._blocks(have)
            self._chunk(request, have, tokens, self.known_tokens(request))
        return tokens

    # Waiting requests

    def _fits(self, request: int, blocks: int) -> bool:
        return blocks <= self.pool.free - (self.settings.watermark_blocks if self.running else 0)

    def _start(self, request: int) -> None:
        self.running += 1
        self.stack.append(request)

    def _admit(self, budget: int) -> None:
        """From the head of the queue, none skipped, while it fits."""
        settings, pool, waiting, caching = self.settings, self.pool, self.waiting, self.settings.prefix_caching
        size, extra = self.block_size, settings.extra_blocks
        while waiting and budget > 0 and self.running < self.slots:
            request = waiting[0]
            known, resumed = self.prompt[request], False
            if request in self.known:
                known, resumed = self.known[request], True
            # who shares nothing and was never stopped finds nothing
            finds = caching and (resumed or self.names)
            hits, idle = pool.found(request, known) if finds else (0, 0)
            have = hits * size
            tokens = known - have
            if tokens > budget:
                if settings.whole_prompts and budget < settings.max_num_batched_tokens:
                    return  # another step has more room
                tokens = budget
            blocks = -(-(have + tokens) // size) + extra - hits
            asked = -(-known // size) + extra - hits if settings.whole_prompt_fits else blocks
            if not self._fits(request, asked + idle):
                self.blocked = True
                self._runs_out()
                return
            waiting.popleft()
            if caching:
                if finds:
                    pool.start(request, known, resumed)
                else:
                    pool.queried += known
                self.admitted[request] = self.serial
                self.serial += 1
            pool.free -= blocks
            self._start(request)
            self._chunk(request, have, tokens, known)
            budget -= tokens
