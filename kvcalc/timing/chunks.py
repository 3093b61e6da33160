"""The chunks that a prompt is computed in, whatever their number.

Unit: tokens
Source: Agrawal et al. 2024 (Sarathi-Serve), section 4; how many are timed one by one is a judgement
"""

from itertools import pairwise
from math import ceil
from typing import NamedTuple

MOST = 64  # of one prompt that are timed one by one


class Chunks(NamedTuple):
    """Equal chunks of a prompt that follow one another, and where the middle one starts."""

    tokens: float
    start: float
    number: int


def chunks(tokens: float, budget: int, start: float = 0.0) -> list[Chunks]:
    """The equal chunks of some tokens of a prompt, one after the other; of very many, runs of them.

    A chunk's time is all but linear in where it starts, so that the middle one speaks for its run.

    Args:
        tokens: to be computed.
        budget: tokens of a step, at most.
        start: tokens that are cached before the first chunk.

    >>> chunks(3000, budget=2048)
    [Chunks(tokens=1500.0, start=0.0, number=1), Chunks(tokens=1500.0, start=1500.0, number=1)]
    """
    number = max(1, ceil(tokens / budget))
    size = tokens / number
    runs = min(number, MOST)
    ends = [run * number // runs for run in range(runs + 1)]
    return [Chunks(size, start + size * (first + last - 1) / 2, last - first) for first, last in pairwise(ends)]
