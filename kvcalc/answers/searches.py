"""A search among whole numbers."""

from bisect import bisect_left
from collections.abc import Callable


def largest(passes: Callable[[int], bool], most: int) -> int:
    """The largest whole number from 1 to `most` that passes, where all smaller ones do too; 0: not even 1.

    >>> largest(lambda number: number <= 5, 9), largest(lambda number: False, 9)
    (5, 0)
    """
    return bisect_left(range(1, most + 1), True, key=lambda number: not passes(number))
