"""Cache memory in one piece a request, as servers before paging had it: reserved for a length that may never come.

Source: Kwon et al. 2023 (PagedAttention), section 3 and figure 2: Orca with the maximum length, with the next power of
two of the true length, and with the true length, all allocated by buddies.
"""

from typing import Literal

Reservation = Literal["max", "pow2", "oracle"]


def reserved_tokens(reservation: Reservation, prompt: int, output: int, longest: int) -> int:
    """Tokens that a request reserves: of its answer the next power of two, or all that it may become.

    >>> [reserved_tokens(way, 100, 25, 2048) for way in ("max", "pow2", "oracle")]
    [2048, 132, 125]
    """
    if reservation == "max":
        return longest
    return min(longest, prompt + (1 << (output - 1).bit_length())) if reservation == "pow2" else prompt + output


class Equal:
    """Regions of one size: what is left over is of no use."""

    def __init__(self, slots: int, size: int) -> None:
        self.slots = self.free = slots
        self.size = size

    def allocate(self, tokens: int) -> tuple[int, int] | None:
        """A region; None: all are taken."""
        if self.free < self.size:
            return None
        self.free -= self.size
        return 0, self.size

    def release(self, region: tuple[int, int]) -> None:
        """Back."""
        self.free += region[1]


class Buddies:
    """Regions whose sizes are powers of two; a pool of any size is the sum of some."""

    def __init__(self, slots: int) -> None:
        self.slots = self.free = slots
        self._free: dict[int, set[int]] = {}
        start, size = 0, 1 << max(0, slots.bit_length() - 1)
        while size:
            if slots & size:
                self._free.setdefault(size, set()).add(start)
                start += size
            size >>= 1

    def allocate(self, tokens: int) -> tuple[int, int] | None:
        """(start, size) of the smallest region that holds so many tokens; None: there is none.

        >>> pool = Buddies(100)  # 64 + 32 + 4
        >>> pool.allocate(20), pool.allocate(50), pool.allocate(3), pool.allocate(9)
        ((64, 32), (0, 64), (96, 4), None)
        """
        wanted = 1 << (tokens - 1).bit_length()
        sizes = [size for size, starts in self._free.items() if starts and size >= wanted]
        if not sizes:
            return None
        size = min(sizes)
        start = min(self._free[size])
        self._free[size].remove(start)
        while size > wanted:
            size //= 2
            self._free.setdefault(size, set()).add(start + size)
        self.free -= size
        return start, size

    def release(self, region: tuple[int, int]) -> None:
        """Back, joined with its buddy as often as that is free."""
        start, size = region
        self.free += size
        base = self._base(start)
        while size < base[1]:
            buddy = base[0] + ((start - base[0]) ^ size)
            if buddy not in self._free.get(size, ()):
                break
            self._free[size].remove(buddy)
            start, size = min(start, buddy), size * 2
        self._free.setdefault(size, set()).add(start)

    def _base(self, start: int) -> tuple[int, int]:
        """The power of two of the pool's own size that a region lies in."""
        begin, size = 0, 1 << max(0, self.slots.bit_length() - 1)
        while True:
            if self.slots & size:
                if start < begin + size:
                    return begin, size
                begin += size
            size >>= 1
