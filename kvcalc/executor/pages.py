"""Pages: a pool that counts references, and sequences that grow over it, share it and give it back.

Plain Python: nothing here touches a tensor, but for the copy that a write to a shared page asks for.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from kvcalc.errors import KvcalcError

SIZES = (16, 32, 64, 128, 256)  # tokens of a page
DROPPED = -1  # in a table: a page that a sliding window has left behind


class PagePool:
    """Pages by number, handed out in a shuffled order so that no sequence lies in one piece."""

    def __init__(self, pages: int, seed: int = 0) -> None:
        self.references = [0] * pages
        self._free = list(range(pages))
        random.Random(seed).shuffle(self._free)

    @property
    def free(self) -> int:
        return len(self._free)

    @property
    def used(self) -> int:
        return len(self.references) - self.free

    def take(self) -> int:
        """A page for one owner.

        Raises:
            KvcalcError: none is free.
        """
        if not self._free:
            total = len(self.references)
            raise KvcalcError(f"all {total} pages of the cache are taken", hint="fewer or shorter sequences")
        page = self._free.pop()
        self.references[page] = 1
        return page

    def share(self, page: int) -> int:
        self.references[page] += 1
        return page

    def release(self, page: int) -> None:
        self.references[page] -= 1
        if self.references[page] == 0:
            self._free.append(page)

    def is_shared(self, page: int) -> bool:
        return self.references[page] > 1


@dataclass
class Sequence:
    """Tokens that are cached, and in every pool the pages that hold them, in order."""

    length: int = 0
    tables: list[list[int]] = field(default_factory=list)


class Pages:
    """The pools of a model, one for each kind of layer, with the window of that kind."""

    def __init__(
        self, page_size: int, pools: Iterable[PagePool], windows: Iterable[int | None], copy: Callable[..., None]
    ) -> None:
        """`copy(pool, source, target)` copies one page in every layer of a pool."""
        self.page_size = page_size
        self.pools = tuple(pools)
        self.windows = tuple(windows)
        self._copy = copy

    def start(self, length: int = 0) -> Sequence:
        """A sequence with room for `length` tokens already; windows have left their pages behind."""
        tables = []
        for pool, window in zip(self.pools, self.windows, strict=True):
            behind = self._behind(length, window)
            pages = -(-length // self.page_size)
            tables.append([DROPPED] * behind + [pool.take() for _ in range(pages - behind)])
        return Sequence(length, tables)

    def append(self, sequence: Sequence) -> None:
        """Room for the next token: a new page where the last is full, a copy where it is shared."""
        for index, (pool, window) in enumerate(zip(self.pools, self.windows, strict=True)):
            table = sequence.tables[index]
            for place in range(self._behind(sequence.length + 1, window) - 1, -1, -1):
                if table[place] == DROPPED:
                    break
                pool.release(table[place])
                table[place] = DROPPED
            if sequence.length % self.page_size == 0:
                table.append(pool.take())
            elif pool.is_shared(table[-1]):
                old, table[-1] = table[-1], pool.take()
                self._copy(index, old, table[-1])
                pool.release(old)
        sequence.length += 1

    def _behind(self, length: int, window: int | None) -> int:
        """Pages that lie wholly before what the last of `length` tokens attends to."""
        return 0 if window is None else max(0, length - window) // self.page_size

    def fork(self, sequence: Sequence) -> Sequence:
        """A second sequence over the same pages: nothing is copied until one of the two writes."""
        for pool, table in zip(self.pools, sequence.tables, strict=True):
            for page in table:
                if page != DROPPED:
                    pool.share(page)
        return Sequence(length=sequence.length, tables=[list(table) for table in sequence.tables])

    def finish(self, sequence: Sequence) -> None:
        """Give everything back."""
        for pool, table in zip(self.pools, sequence.tables, strict=True):
            for page in table:
                if page != DROPPED:
                    pool.release(page)
            table.clear()
        sequence.length = 0


def pages_held(tokens: int, page_size: int, window: int | None) -> int:
    """Pages that hold the tokens which the last of `tokens` attends to.

    >>> pages_held(100, 16, None), pages_held(100, 16, 32), pages_held(96, 16, 32)
    (7, 3, 2)
    """
    behind = 0 if window is None else max(0, tokens - window)
    return -(-tokens // page_size) - behind // page_size


def check_page_size(tokens: int) -> None:
    """Raises KvcalcError where the executor has no pages of this size."""
    if tokens not in SIZES:
        sizes = ", ".join(map(str, SIZES))
        raise KvcalcError(f"--block-size: {tokens} tokens", hint=f"the executor has pages of {sizes}")
