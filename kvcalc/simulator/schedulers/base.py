"""What schedulers share: who runs, tokens as they come, and results that are known a step later."""

from abc import ABC, abstractmethod
from collections import deque

from kvcalc.simulator.blocks import Pool
from kvcalc.simulator.decoding import Decoding
from kvcalc.simulator.prefix_cache import PrefixPool
from kvcalc.simulator.requests import Requests, Times
from kvcalc.simulator.settings import Settings
from kvcalc.simulator.state import Counts
from kvcalc.simulator.step_times import Chunk, Line, StepTimes

NOTHING: Line = (0.0, 0.0, 0)
NOBODY: list[int] = []


class Running(ABC):
    """Requests from the queue to their last token; a policy adds `plan`."""

    prompts_first = False
    reserves = False
    again = False  # nothing was left to compute, and the next step is planned at once
    on_demand = True  # blocks are taken as tokens need them

    def __init__(
        self, settings: Settings, requests: Requests, times: StepTimes, pool: Pool | PrefixPool, seen: Times
    ) -> None:
        self.settings, self.requests, self.times, self.pool, self.seen = settings, requests, times, pool, seen
        self.prompt, self.output = requests.prompt, requests.output
        self.block_size, self.slots = settings.block_size, settings.max_num_seqs
        self.decoding = Decoding(settings.block_size, times.windows)
        self.waiting: deque[int] = deque()
        self.stack: list[int] = []  # running requests as admitted; some have ended
        self.running = 0
        self.partial: int | None = None
        self.computed = 0  # tokens of that prompt that are in the cache
        self.known: dict[int, int] = {}  # tokens of a stopped request; of others the prompt
        self.last: dict[int, float] = {}  # when a stopped request had its last token
        self.ended: deque[tuple[int, int]] = deque()  # (step, request) of last tokens whose results are awaited
        self.dropped: set[int] = set()  # of those, who was stopped meanwhile
        self.admitted: dict[int, int] = {}  # a number that grows with each admission
        self.serial = 0
        self.blocked = False  # the queue's head lacks blocks, and none came free since
        self.full_s: float | None = None  # when blocks first ran out
        self.counts = Counts()
        self.gaps: list[float] = []
        self.end_s = 0.0
        self.line = NOTHING
        self.chunks: list[Chunk] = []
        self.completed: list[int] = []  # prompts that the planned step completes
        self.open = False
        self.paused_s = 0.0  # time in which sequences that decode had to wait for prompts
        self.begun_s = 0.0

        self.prompts: deque[int] = deque()  # of a batch that begins
        # whether anything is shared: a request's own blocks need no name
        self.names = settings.prefix_caching and any(pool.paths)  # type: ignore[union-attr]
        self.begun: list[int] = []  # with a first token, but not decoding yet

    # Results

    def passed(self, step: int, steps: int, end_s: float) -> list[int]:
        decoding, after = self.decoding, step + steps
        if steps > 1 and self.on_demand:  # of the first of them they were taken when it was planned
            self.pool.free -= decoding.needed_over(step + 1, steps - 1)
        self.end_s = end_s
        if decoding.windows:
            decoding.advance(after, steps)
        else:
            decoding.cached += decoding.count * steps
        finished = NOBODY if decoding.first_end >= after else decoding.ended(after)
        for request in self.completed:
            if not self._decodes(request, after):
                finished = [*finished, request]
        return self._record(finished, after) if finished else finished

    def _record(self, finished: list[int], after: int) -> list[int]:
        """Requests that had their last token in the step before `after`."""
        if len(finished) > 1 and self.settings.prefix_caching:
            finished.sort(key=self.admitted.__getitem__)  # who ran first gives its blocks back first
        for request in finished:
            self.seen.last_s[request] = self.end_s
            self.ended.append((after - 1, request))
        return finished

    def _decodes(self, request: int, step: int) -> bool:
        """A prompt is complete and gave a token; whether more are to come."""
        known = prompt = self.prompt[request]
        if self.known and request in self.known:
            known = self.known.pop(request)
        if self.last and request in self.last:
            self.gaps.append(self.end_s - self.last.pop(request))
        else:
            self.seen.first_s[request] = self.end_s
        left = self.output[request] - (known - prompt) - 1
        if left:
            self.decoding.join(request, known, step, left)
        return left > 0

    def settle(self, done: int) -> None:
        ended, dropped = self.ended, self.dropped
        while ended and ended[0][0] <= done:
            request = ended.popleft()[1]
            if request in dropped:
                dropped.remove(request)
                continue
            self.running -= 1
            self._release(request, self.prompt[request] + self.output[request] - 1, returns=False)

    def _runs_out(self) -> None:
        """Somebody lacks blocks."""
        if self.full_s is None:
            self.full_s = self.end_s

    def _release(self, request: int, tokens: int, returns: bool) -> None:
        self.admitted.pop(request, None)
        blocks = -(-tokens // self.block_size) + self.settings.extra_blocks
        self.pool.release(request, tokens, blocks, returns)
        self.blocked = False

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self.block_size) + self.settings.extra_blocks

    def known_tokens(self, request: int) -> int:
        """Of a request whose prompt is in work: the prompt, and what it had generated before it was stopped."""
        return self.known.get(request) or self.prompt[request]

    @abstractmethod
    def plan(self, step: int) -> int:
        """The next step; how many equal ones there are."""

    def promised(self) -> int:
        """Tokens that the running requests will have, where room for them is kept."""
        return 0

    # Prompts

    def _chunk(self, request: int, have: int, tokens: int, known: int) -> None:
        self.chunks.append((have, tokens))
        if self.names:
            self.pool.named(request, have + tokens)
        if have + tokens == known:
            self.completed.append(request)
            self.partial = None
        else:
            self.partial, self.computed = request, have + tokens
