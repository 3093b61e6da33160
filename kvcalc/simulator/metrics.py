"""What came of a run: gaps between tokens, slots, blocks and budget in use, and samples over time.

A jump of m equal steps adds n gaps a step to a histogram of equal ratios; its steps' times differ by less than a bin.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from math import exp, log
from struct import Struct
from typing import Any, NamedTuple

from kvcalc.simulator.state import Scheduler

BINS_PER_UNIT = 200  # of the natural logarithm: a bin is 0.5 % wide
SAMPLES = 1024  # kept of a timeline: when there are twice as many, every other one goes


class Sample(NamedTuple):
    """The engine at one moment."""

    time_s: float
    running: int
    waiting: int
    blocks: int  # held


COLUMNS = ("start_s", "seconds", "steps", "count", "cached", "held", "running", "waiting")
# of rows that are not plain decode steps
BESIDE = ("row", "chunks", "reached", "tokens", "completed", "promised", "paused_s", "newest")
KEPT = 1 << 15  # events that are looked at together
_ROW, _BESIDE = Struct(f"{len(COLUMNS)}d"), Struct(f"{len(BESIDE)}d")  # packing is ten times as fast as array.extend


@dataclass
class Use:
    """Integrals over time, in units times seconds, and counts of tokens.

    Events are written down as rows of numbers and summed up thousands at a time: at a million requests that is half of
    what adding up each would take.
    """

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
    samples: list[Sample] = field(default_factory=list)
    _scheduler: "Scheduler | None" = None
    _rows: bytearray = field(default_factory=lambda: bytearray(KEPT * _ROW.size))
    _beside: bytearray = field(default_factory=lambda: bytearray(KEPT * _BESIDE.size))
    _row: int = 0  # that is written next
    _beside_row: int = 0
    _every: int = 1  # of the events, one is a sample
    _seen: int = 0
    _counted: int = 0  # steps, where they are single

    def passed(self, scheduler: Scheduler, steps: int, start_s: float, end_s: float) -> None:
        """So many equal steps ran."""
        pool, decoding = scheduler.pool, scheduler.decoding
        if scheduler.chunks or scheduler.paused_s or scheduler.reserves or self.counts_newest:
            self._note_beside(scheduler)
        row = self._row
        _ROW.pack_into(
            self._rows, row * _ROW.size, start_s, end_s - start_s, steps, decoding.count, decoding.cached,
            pool.blocks - pool.free, scheduler.running, len(scheduler.waiting),
        )  # fmt: skip
        self._row, self._scheduler = row + 1, scheduler
        if row == KEPT - 1:
            self._sum_up()

    def _note_beside(self, scheduler: Scheduler) -> None:
        """What a row has beside decode."""
        chunks, newest, reached, tokens, completed, promised = scheduler.chunks, 0, 0, 0, 0, -1
        for start, count in chunks:
            reached += start + count
            tokens += count
        if chunks:
            completed = len(scheduler.completed)
        if scheduler.reserves:
            promised = scheduler.promised()
        elif self.counts_newest:
            self._counted += 1
            size = scheduler.pool.block_size
            newest = scheduler.decoding.needed(self._counted)
            newest += sum(scheduler.known_tokens(one) % size == 0 for one in scheduler.completed)
        _BESIDE.pack_into(
            self._beside, self._beside_row * _BESIDE.size, self._row, len(chunks), reached, tokens, completed, promised,
            scheduler.paused_s, newest,
        )  # fmt: skip
        self._beside_row += 1

    def finish(self) -> None:
        """After the last event."""
        self._sum_up()

    def _sum_up(self) -> None:
        import numpy as np

        if not self._row or self._scheduler is None:
            return
        size, prompts_first = self._scheduler.pool.block_size, self._scheduler.prompts_first
        row = self._table()
        seconds, steps, count, waits = row["seconds"], row["steps"], row["count"], row["waiting"] > 0
        held = row["held"] + count * (steps - 1) / (2 * size)  # what a jump takes on its way
        # tokens of the running requests, the ones that these steps give among them
        filled = row["cached"] + count * (2 + (steps - 1) / 2) + row["reached"] + row["completed"]
        filled = np.minimum(filled, held * size)  # the newest of a full block has no place before it is read
        promised = np.where(row["promised"] < 0, filled, row["promised"])
        decodes = count * steps * ((row["chunks"] == 0) | (not prompts_first))
        self.busy_s += float(seconds.sum())
        self.slots_s += float(((count + row["chunks"]) * seconds).sum())
        self.held_s += float((held * seconds).sum())
        self.filled_s += float((filled * seconds).sum())
        self.steps += int(steps.sum())
        drafts = self._scheduler.settings.drafts
        self.tokens += int(decodes.sum() * (1 if drafts is None else drafts.rows) + row["tokens"].sum())
        early = waits & (row["start_s"] < self.last_arrival_s)
        self.queued_s += float(seconds[early].sum())
        self.queued_at_end |= bool((early & (row["start_s"] + seconds >= self.last_arrival_s)).any())
        self.crowded_s += float(seconds[waits].sum())
        self.crowded_filled_s += float((filled * seconds)[waits].sum())
        self.crowded_held_s += float((held * seconds)[waits].sum()) * size
        self.crowded_promised_s += float((promised * seconds)[waits].sum())
        self._count_gaps(seconds / steps, decodes, row)
        self._sample(row)
        self._row = self._beside_row = 0

    def _table(self) -> dict[str, Any]:
        """The events' numbers by name, an array each."""
        import numpy as np

        table = np.frombuffer(self._rows).reshape(-1, len(COLUMNS))[: self._row]
        row = dict(zip(COLUMNS, table.T, strict=True))
        beside = np.frombuffer(self._beside).reshape(-1, len(BESIDE))[: self._beside_row].T
        places = beside[0].astype(int)
        for name, values in zip(BESIDE[1:], beside[1:], strict=True):
            row[name] = np.full(len(table), -1.0 if name == "promised" else 0.0)
            row[name][places] = values
        row["held"] = row["held"] + row["newest"]
        return row

    def _count_gaps(self, each_s: Any, decodes: Any, row: dict[str, Any]) -> None:
        """A gap for every token; where decode had to wait for prompts, the first of a jump's is longer."""
        late = (row["paused_s"] > 0) & (decodes > 0)
        self._add_gaps(each_s + row["paused_s"], late * row["count"])
        self._add_gaps(each_s, decodes - late * row["count"])

    def _add_gaps(self, gaps_s: Any, counts: Any) -> None:
        import numpy as np

        some = counts > 0
        places = np.trunc(np.log(gaps_s[some]) * BINS_PER_UNIT).astype(np.int64)
        found, index = np.unique(places, return_inverse=True)
        for place, total in zip(found.tolist(), np.bincount(index, weights=counts[some]).tolist(), strict=True):
            self.gaps[place] = self.gaps.get(place, 0) + int(total)

    def _sample(self, row: dict[str, Any]) -> None:
        """Every so many events one moment: when there are too many, every other one goes."""
        events = len(row["steps"])
        chosen = range(-self._seen % self._every, events, self._every)
        while len(self.samples) + len(chosen) >= 2 * SAMPLES:
            del self.samples[1::2]
            self._every *= 2
            chosen = range(-self._seen % self._every, events, self._every)
        which = slice(chosen.start, None, chosen.step)
        columns = [row[name][which].tolist() for name in ("start_s", "running", "waiting", "held")]
        self.samples += [Sample(time, int(a), int(b), int(c)) for time, a, b, c in zip(*columns, strict=True)]
        self._seen += events

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
        "crowded_promised_s", "steps", "tokens")  # fmt: skip


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
