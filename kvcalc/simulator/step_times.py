"""Seconds of every step that a scheduler can make, as tables: at a fixed batch a step is linear in the cached tokens.

decode   base[n] + slope[n] · S + Σ_w slope_w[n] · S_w      S: cached tokens, S_w: those inside a window of w
prompts  rows[n + r] - rows[n] + heads[n + p] - heads[n] + Σ attention(start, tokens)      beside n that decode
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

# A step's seconds, what each equal step after it adds to them, and for how many steps that holds
Line = tuple[float, float, int]
Chunk = tuple[int, int]  # tokens of one prompt cached before a step, and computed in it
ENDLESS = 1 << 60
ENDLESS_WINDOW = float("inf")


class Reach(NamedTuple):
    """What attention of one window costs in a prompt: for each pair of tokens, and for each token read again."""

    window: float  # tokens; infinity: all
    pair_s: float
    start_s: float


class StepTimes(Protocol):
    """What a scheduler asks of a machine. Tokens in windows: one number for each of `windows`."""

    @property
    def windows(self) -> tuple[int, ...]:
        """Cached tokens at which attention stops to grow."""

    def decode(self, sequences: int, cached: int, inside: Sequence[int], growing: Sequence[int]) -> Line:
        """A step that decodes: `cached` tokens of all; `growing` sequences are not yet as long as the window."""
        ...

    def mixed(self, sequences: int, cached: int, inside: Sequence[int], chunks: Sequence[Chunk]) -> float:
        """Seconds of a step that decodes (or not) and computes chunks of prompts."""
        ...


@dataclass(frozen=True, slots=True)
class PromptTable:
    """What chunks of prompts cost: rows of the step, rows of the head, and attention among their tokens."""

    rows: tuple[float, ...]
    heads: tuple[float, ...]
    reaches: tuple[Reach, ...]
    once_s: float = 0.0  # in a step with any chunk: launches of the kernels that only prompts need

    def seconds(self, rows_before: int, heads_before: int, chunks: Sequence[Chunk]) -> float:
        """Seconds that chunks add to so many rows that decode."""
        heads, rows = self.heads, self.rows
        if len(chunks) == 1 and len(self.reaches) == 1:  # one prompt and no window: the usual case
            (start, tokens), (_, pair_s, start_s) = chunks[0], self.reaches[0]
            attention = pair_s * tokens * (start + tokens / 2) + start_s * start
            head = heads[heads_before + 1] - heads[heads_before]
            return self.once_s + rows[rows_before + tokens] - rows[rows_before] + head + attention
        tokens, attention = 0, 0.0
        for start, count in chunks:
            tokens += count
            for window, pair_s, start_s in self.reaches:
                if window == ENDLESS_WINDOW:
                    attention += pair_s * count * (start + count / 2) + start_s * start
                else:
                    attention += pair_s * pairs(start, count, window) + start_s * min(start, window)
        head = heads[heads_before + len(chunks)] - heads[heads_before]
        return self.once_s + rows[rows_before + tokens] - rows[rows_before] + head + attention

    def scaled(self, factor: float) -> "PromptTable":
        """The same times, all multiplied."""
        reaches = tuple(Reach(window, factor * pair_s, factor * start_s) for window, pair_s, start_s in self.reaches)
        return PromptTable(_scaled(self.rows, factor), _scaled(self.heads, factor), reaches, factor * self.once_s)


@dataclass(frozen=True, slots=True)
class TabledTimes:
    """An engine's estimate as tables, by sequences that decode."""

    base: tuple[float, ...]
    slope: tuple[float, ...]
    windows: tuple[int, ...]
    window_slopes: tuple[tuple[float, ...], ...]  # a table for each window
    beside: PromptTable  # chunks beside sequences that decode
    alone: PromptTable  # chunks with nobody else in the step
    rows_each: int = 1  # rows that one sequence brings: 1, or more where drafts are verified
    beside_slope: tuple[float, ...] = ()  # added to `slope` in a step with chunks; empty: nothing

    def decode(self, sequences: int, cached: int, inside: Sequence[int], growing: Sequence[int]) -> Line:
        slope = self.slope[sequences]
        cost, growth = self.base[sequences] + slope * cached, slope * sequences
        if inside:
            for table, tokens, grow in zip(self.window_slopes, inside, growing, strict=True):
                cost += table[sequences] * tokens
                growth += table[sequences] * grow
        return cost, growth, ENDLESS

    def mixed(self, sequences: int, cached: int, inside: Sequence[int], chunks: Sequence[Chunk]) -> float:
        if not sequences:
            return self.alone.seconds(0, 0, chunks)
        slope = self.slope[sequences] + (self.beside_slope[sequences] if self.beside_slope else 0.0)
        cost = self.base[sequences] + slope * cached
        if inside:
            for table, tokens in zip(self.window_slopes, inside, strict=True):
                cost += table[sequences] * tokens
        rows = sequences * self.rows_each
        return cost + self.beside.seconds(rows, rows, chunks)

    def scaled(self, factor: float) -> "TabledTimes":
        """The same times, all multiplied."""
        if factor == 1:
            return self
        return replace(
            self,
            base=_scaled(self.base, factor),
            slope=_scaled(self.slope, factor),
            window_slopes=tuple(_scaled(one, factor) for one in self.window_slopes),
            beside=self.beside.scaled(factor),
            alone=self.alone.scaled(factor),
            beside_slope=_scaled(self.beside_slope, factor),
        )


@dataclass(frozen=True, slots=True)
class ConstantTimes:
    """Every step takes equally long: the lessons' schedules count steps."""

    step_s: float = 1.0
    windows: tuple[int, ...] = ()

    def decode(self, sequences: int, cached: int, inside: Sequence[int], growing: Sequence[int]) -> Line:
        return self.step_s, 0.0, ENDLESS

    def mixed(self, sequences: int, cached: int, inside: Sequence[int], chunks: Sequence[Chunk]) -> float:
        return self.step_s

    def scaled(self, factor: float) -> "ConstantTimes":
        """The same times, all multiplied."""
        return ConstantTimes(self.step_s * factor)


@dataclass(frozen=True, slots=True)
class RooflineTimes:
    """The lessons' bound: the longer of memory and compute time, each linear in the cached tokens."""

    weights_s: float  # to read all weights
    cached_s: float  # to read one cached token
    row_s: float  # to compute one row
    attended_s: float  # to compute attention over one cached token
    pair_s: float  # and of one pair of tokens of a prompt
    windows: tuple[int, ...] = ()

    def decode(self, sequences: int, cached: int, inside: Sequence[int], growing: Sequence[int]) -> Line:
        memory, compute = self.weights_s + self.cached_s * cached, self._compute(sequences, cached)
        more, work = self.cached_s * sequences, self.attended_s * sequences
        if compute > memory or (compute == memory and work > more):
            memory, compute, more, work = compute, memory, work, more
        # the other line takes over where it grows faster
        until = ENDLESS if work <= more else int((memory - compute) / (work - more)) + 1
        return memory, more, max(1, until)

    def mixed(self, sequences: int, cached: int, inside: Sequence[int], chunks: Sequence[Chunk]) -> float:
        compute = self._compute(sequences, cached)
        for start, tokens in chunks:
            compute += self.row_s * tokens + self.pair_s * pairs(start, tokens)
        return max(self.weights_s + self.cached_s * cached, compute)

    def _compute(self, sequences: int, cached: int) -> float:
        return self.row_s * sequences + self.attended_s * cached

    def scaled(self, factor: float) -> "RooflineTimes":
        """The same times, all multiplied."""
        names = ("weights_s", "cached_s", "row_s", "attended_s", "pair_s")
        return replace(self, **{name: factor * getattr(self, name) for name in names})


@dataclass(frozen=True, slots=True)
class PiecedTimes:
    """Steps in pieces of at most `rows` tokens, as llama.cpp's micro-batches; who decodes is in the first."""

    times: TabledTimes
    rows: int

    @property
    def windows(self) -> tuple[int, ...]:
        return self.times.windows

    def decode(self, sequences: int, cached: int, inside: Sequence[int], growing: Sequence[int]) -> Line:
        return self.times.decode(sequences, cached, inside, growing)

    def mixed(self, sequences: int, cached: int, inside: Sequence[int], chunks: Sequence[Chunk]) -> float:
        pieces: list[list[Chunk]] = [[]]
        room = self.rows - sequences * self.times.rows_each
        for start, tokens in chunks:
            done = 0
            while done < tokens:
                if room <= 0:
                    pieces.append([])
                    room = self.rows
                part = min(room, tokens - done)
                pieces[-1].append((start + done, part))
                done, room = done + part, room - part
        first = self.times.mixed(sequences, cached, inside, pieces[0])
        return first + sum(self.times.mixed(0, 0, [0] * len(inside), piece) for piece in pieces[1:])

    def scaled(self, factor: float) -> "PiecedTimes":
        """The same times, all multiplied."""
        return PiecedTimes(self.times.scaled(factor), self.rows)


def pairs(start: float, tokens: float, window: float = float("inf")) -> float:
    """Pairs of (token, earlier token) of `tokens` tokens after `start`, each seeing `window` back.

    >>> pairs(0, 100), pairs(50, 100), pairs(100, 100, window=10)
    (5000.0, 10000.0, 1000)
    """
    end = start + tokens
    if end <= window:
        return tokens * (start + tokens / 2)
    if start >= window:
        return window * tokens
    return (window * window - start * start) / 2 + window * (end - window)


def _scaled(times: Sequence[float], factor: float) -> tuple[float, ...]:
    return tuple(factor * one for one in times)
