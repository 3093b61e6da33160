"""Static batches: a batch starts together and keeps its slots until its longest request ends.

The lessons' comparison (request-level scheduling, as servers before Orca had it): prompts first, then decode; who has
ended idles, who arrives waits for the whole batch.
"""

from kvcalc.simulator.schedulers.base import Running


class StaticScheduler(Running):
    """Batches of at most `max_num_seqs` requests, in the order in which they wait."""

    on_demand = False  # everything is taken when the batch is formed

    def settle(self, done: int) -> None:
        """A batch gives everything back at once."""
        if self.running and len(self.ended) == self.running and all(step <= done for step, _ in self.ended):
            super().settle(done)

    def plan(self, step: int) -> int:
        decoding = self.decoding
        self.chunks, self.completed, self.open = [], [], False
        if not self.running:
            self._form()
        if self.prompts or self.partial is not None:
            self._compute_prompts()
            self.line = self.times.mixed(0, 0, [0] * len(decoding.inside), self.chunks), 0.0, 1
            return 1
        for request in self.begun:
            decoding.join(request, self.prompt[request], step, self.output[request] - 1)
        self.begun = []
        if not decoding.count:
            return 0
        self.line = self.times.decode(decoding.count, decoding.cached, decoding.inside, decoding.growing)
        steps = min(decoding.first_end - step + 1, self.line[2])
        return min(steps, decoding.next_crossing() - step) if decoding.windows else steps

    def _form(self) -> None:
        """As many as have slots, and blocks for all that they will ever be."""
        while self.waiting and self.running < self.slots:
            request = self.waiting[0]
            blocks = self._blocks(self.prompt[request] + self.output[request] - 1)
            if blocks > self.pool.free:
                self._runs_out()
                return
            self.pool.free -= blocks
            self.prompts.append(self.waiting.popleft())
            self.running += 1

    def _compute_prompts(self) -> None:
        budget = self.settings.max_num_batched_tokens
        while budget > 0 and (self.prompts or self.partial is not None):
            request = self.partial if self.partial is not None else self.prompts.popleft()
            have = self.computed if self.partial is not None else 0
            tokens = min(self.prompt[request] - have, budget)
            self._chunk(request, have, tokens, self.prompt[request])
            budget -= tokens

    def _decodes(self, request: int, step: int) -> bool:
        """The first token; decode begins when every prompt of the batch is complete."""
        self.seen.first_s[request] = self.end_s
        if self.output[request] == 1:
            return False
        self.begun.append(request)
        return True
