"""What came of a run: gaps between tokens, slots, blocks and budget in use, and samples over time.

A jump of m equal steps adds n gaps a step to a histogram of equal ratios; its steps' times differ by less than a bin.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from math import exp, log
from typing import NamedTuple

from kvcalc.simulator.state import Scheduler

BINS_PER_UNIT = 200  # of the natural logarithm: a bin is 0.5 % wide
SAMPLES = 1024  # kept of a timeline: when there are twice as many, every other one goes


class Sample(NamedTuple):
    """The engine at one moment."""

    time_s: float
    running: int
    waiting: int
    blocks: int  # held


@dataclass(slots=True)
class Use:
    """Integrals over time, in units times seconds, and counts of tokens."""

    slots_s: float = 0.0
    held_s: float = 0.0  # blocks
    filled_s: float = 0.0  # tokens in held blocks
    busy_s: float = 0.0
    queued_s: float = 0.0  # time in which somebody waited, while requests arrive
    queued_at_end: bool = False  # when the last one arrives
    last_arrival_s: float = float("inf")
    counts_newest: bool = False  # a token takes its place when it is generated, as the lessons count; steps are single
    steps: int = 0
    tokens: int = 0  # computed: budget in use
    crowded_s: float = 0.0  # the same while somebody waits, in tokens
    crowded_filled_s: float = 0.0
    crowded_held_s: float = 0.0
    crowded_promised_s: float = 0.0
    gaps: dict[int, int] = field(default_factory=dict)
    most_held: float = 0  # blocks
    samples: list[Sample] = field(default_factory=list)
    _every_s: float = 0.0
    _next_s: float = 0.0

    def passed(self, scheduler: Scheduler, steps: int, start_s: float, end_s: float) -> None:
        """So many equal steps ran."""
        seconds = end_s - start_s
        pool, decoding = scheduler.pool, scheduler.decoding
        count, chunks = decoding.count, scheduler.chunks
        self.busy_s += seconds
        self.slots_s += (count + len(chunks)) * seconds
        held = pool.blocks - pool.free + count * (steps - 1) / (2 * pool.block_size)  # what a jump takes on its way
        if self.counts_newest and scheduler.promised() is None:
            held += decoding.needed(self.steps + 1)
            held += sum(scheduler.known_tokens(one) % pool.block_size == 0 for one in scheduler.completed)
        self.held_s += held * seconds
        self.most_held = max(self.most_held, held)
        # tokens of the running requests, the ones that these steps give among them
        filled = decoding.cached + count * (2 + (steps - 1) / 2)
        if scheduler.waiting and start_s < self.last_arrival_s:
            self.queued_s += seconds
            self.queued_at_end = end_s >= self.last_arrival_s
        self.steps += steps
        decodes = not (scheduler.prompts_first and chunks)
        if decodes:
            self.tokens += count * steps
        for start, tokens in chunks:
            self.tokens += tokens
            filled += start + tokens
        filled += len(scheduler.completed)
        self.filled_s += filled * seconds
        if scheduler.waiting:
            self._crowded(scheduler, held, filled, seconds)
        if count:
            self._count_gaps(scheduler, count, steps, seconds / steps)
        if start_s >= self._next_s:
            self._sample(scheduler, start_s)

    def _count_gaps(self, scheduler: Scheduler, count: int, steps: int, each_s: float) -> None:
        """A gap for every token, the first of them longer where decode had to wait for prompts."""
        gaps = self.gaps
        if scheduler.prompts_first:
            if scheduler.chunks:
                return
            place = int(log(each_s + scheduler.paused_s) * BINS_PER_UNIT)
            gaps[place] = gaps.get(place, 0) + count
            steps -= 1
        if steps:
            place = int(log(each_s) * BINS_PER_UNIT)
            gaps[place] = gaps.get(place, 0) + count * steps

    def _crowded(self, scheduler: Scheduler, held: float, filled: float, seconds: float) -> None:
        """Where memory goes while somebody waits for it."""
        promised = scheduler.promised()
        self.crowded_s += seconds
        self.crowded_filled_s += filled * seconds
        self.crowded_held_s += held * scheduler.pool.block_size * seconds
        self.crowded_promised_s += (filled if promised is None else promised) * seconds

    def _sample(self, scheduler: Scheduler, now: float) -> None:
        pool = scheduler.pool
        self.samples.append(Sample(now, scheduler.running, len(scheduler.waiting), pool.blocks - pool.free))
        if len(self.samples) >= 2 * SAMPLES:
            del self.samples[1::2]
            self._every_s = (now - self.samples[0].time_s) / SAMPLES
        self._next_s = now + self._every_s

    def with_gaps(self, gaps: list[float]) -> dict[int, int]:
        """The histogram, with gaps of requests that were stopped meanwhile."""
        found = dict(self.gaps)
        for gap in gaps:
            place = int(log(gap) * BINS_PER_UNIT)
            found[place] = found.get(place, 0) + 1
        return found


def gap_at(gaps: dict[int, int], percent: float) -> float | None:
    """A percentile of a histogram of gaps, the middle of its bin; None: it is empty.

    >>> round(gap_at({-921: 50, -460: 50}, 99), 3)
    0.1
    """
    left = sum(gaps.values()) * percent / 100
    for place in sorted(gaps):
        left -= gaps[place]
        if left <= 0:
            return exp((place - 0.5 if place <= 0 else place + 0.5) / BINS_PER_UNIT)
    return None


SUMS = ("slots_s", "held_s", "filled_s", "busy_s", "queued_s", "crowded_s", "crowded_filled_s", "crowded_held_s",
        "crowded_promised_s", "steps", "tokens", "most_held")  # fmt: skip


def joined(parts: list[Use]) -> Use:
    """Several replicas as one: integrals and counts added, the timeline at the first one's moments."""
    if len(parts) == 1:
        return parts[0]
    whole = Use(queued_at_end=any(one.queued_at_end for one in parts))
    for name in SUMS:
        setattr(whole, name, sum(getattr(one, name) for one in parts))
    whole.queued_s /= len(parts)
    whole.busy_s /= len(parts)
    for one in parts:
        for place, count in one.gaps.items():
            whole.gaps[place] = whole.gaps.get(place, 0) + count
    longest = max(parts, key=lambda one: len(one.samples))
    whole.samples = [_sum_at(parts, sample.time_s) for sample in longest.samples]
    return whole


def _sum_at(parts: list[Use], now: float) -> Sample:
    found = []
    for one in parts:
        place = bisect_right(one.samples, now, key=lambda sample: sample.time_s) - 1
        if place >= 0:
            found.append(one.samples[place])
    return Sample(now, *(sum(values) for values in list(zip(*found, strict=True))[1:]))
