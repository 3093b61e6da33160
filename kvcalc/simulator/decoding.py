"""Sequences that decode, as numbers: who is one of them only matters when one joins, ends or is stopped.

Every sequence gains a token a step. So its cached tokens are an offset plus the step, it ends in a step that is known
when it joins, and it needs a new block in every block_size-th step: sequences are counted by that remainder.
"""

from collections.abc import Sequence
from heapq import heappop, heappush

ENDLESS = 1 << 60
_SHIFT = 40  # a heap of whole numbers, step and request in one, is twice as fast as one of pairs
_MASK = (1 << _SHIFT) - 1


class Decoding:
    """Numbers at the next step to be planned."""

    def __init__(self, block_size: int, windows: Sequence[int]) -> None:
        self.block_size, self.windows = block_size, tuple(windows)
        self.count = self.cached = 0  # sequences, and their cached tokens
        self.inside = [0] * len(self.windows)  # cached tokens within each window
        self.growing = [0] * len(self.windows)  # sequences that are not yet as long as it
        self.classes = [0] * block_size
        self.offset: dict[int, int] = {}  # cached tokens less the step
        self.end: dict[int, int] = {}  # the step that gives a request's last token
        self.ends_total = 0  # sum of them
        self._ends: list[int] = []
        self.first_end = ENDLESS  # nobody ends before this step; who was stopped may have ended in it
        self._crossings: list[tuple[int, int, int, int]] = []

    def join(self, request: int, tokens: int, step: int, left: int) -> None:
        """A sequence of so many cached tokens decodes from this step on, `left` tokens to come."""
        self.offset[request] = offset = tokens - step
        self.end[request] = end = step + left - 1
        self.classes[offset % self.block_size] += 1
        heappush(self._ends, end << _SHIFT | request)
        if end < self.first_end:
            self.first_end = end
        self.ends_total += end
        self.count += 1
        self.cached += tokens
        if not self.windows:
            return
        for index, window in enumerate(self.windows):
            self.inside[index] += min(tokens, window)
            if tokens < window:
                self.growing[index] += 1
                heappush(self._crossings, (window - offset, index, request, offset))

    def leave(self, request: int, step: int) -> int:
        """A sequence stops before this step; its cached tokens."""
        offset = self.offset.pop(request)
        self.ends_total -= self.end.pop(request)
        tokens = offset + step
        self.classes[offset % self.block_size] -= 1
        self.count -= 1
        self.cached -= tokens
        if self.windows:
            for index, window in enumerate(self.windows):
                self.inside[index] -= min(tokens, window)
                self.growing[index] -= tokens < window
        return tokens

    def ended(self, step: int) -> list[int]:
        """Requests that had their last token in the step before this one: they decode no longer."""
        found: list[int] = []
        ends, end, last, windows = self._ends, self.end, step - 1, self.windows
        limit = step << _SHIFT
        while ends and ends[0] < limit:
            request = heappop(ends) & _MASK
            if end.get(request) != last:
                continue
            found.append(request)
            if windows:
                self.leave(request, step)
                continue
            offset = self.offset.pop(request)  # `leave` without windows: a call for each request counts
            del end[request]
            self.ends_total -= last
            self.classes[offset % self.block_size] -= 1
            self.count -= 1
            self.cached -= offset + step
        self.first_end = ends[0] >> _SHIFT if ends else ENDLESS
        return found

    def next_crossing(self) -> int:
        """The step before which the next sequence fills a window."""
        crossings = self._crossings
        while crossings and self.offset.get(crossings[0][2]) != crossings[0][3]:
            heappop(crossings)
        return crossings[0][0] if crossings else ENDLESS

    def advance(self, step: int, steps: int) -> None:
        """So many steps pass after which `step` is the next."""
        self.cached += self.count * steps
        if self.windows:
            for index, count in enumerate(self.growing):
                self.inside[index] += count * steps
            while self.next_crossing() <= step:
                entry = heappop(self._crossings)
                while self._crossings and self._crossings[0] == entry:  # it left and came back before the same step
                    heappop(self._crossings)
                self.growing[entry[1]] -= 1

    def needed(self, step: int) -> int:
        """Blocks that a step takes."""
        return self.classes[-step % self.block_size]

    def needed_over(self, step: int, steps: int) -> int:
        """Blocks that so many steps from this one on take."""
        size, classes = self.block_size, self.classes
        rounds, rest = divmod(steps, size)
        total = rounds * self.count
        if rest:  # remainders fall from step to step
            low, high = -(step + rest - 1) % size, -step % size
            if low <= high:
                return total + sum(classes[low : high + 1])
            total += sum(classes[low:]) + sum(classes[: high + 1])
        return total

    def steps_within(self, step: int, free: int, most: int) -> int:
        """Steps from this one on whose blocks are there, `most` at most."""
        if not self.count:
            return ENDLESS
        rounds, left = divmod(free, self.count)
        size, steps = self.block_size, 0
        while steps < min(size, most):
            left -= self.classes[-(step + steps) % size]
            if left < 0:
                break
            steps += 1
        return rounds * size + steps
