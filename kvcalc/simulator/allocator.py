"""The block allocator of the lessons and of the vLLM paper: block tables, reference counts, copy on write.

Source: Kwon et al. 2023 (PagedAttention), sections 4.3 and 4.4. What decodes in `simulate` counts blocks; this one has
them, to show who shares which.
"""

from kvcalc.errors import KvcalcError


class BlockAllocator:
    """Numbered blocks of `block_size` tokens; several sequences may hold one."""

    def __init__(self, blocks: int, block_size: int) -> None:
        self.block_size = block_size
        self.free = list(range(blocks - 1, -1, -1))
        self.refs = [0] * blocks
        self.tables: dict[int, list[int]] = {}
        self.tokens: dict[int, int] = {}
        self.copies = 0

    @property
    def used(self) -> int:
        """Blocks that somebody holds."""
        return len(self.refs) - len(self.free)

    def start(self, sequence: int, tokens: int) -> None:
        """A new sequence of so many tokens.

        Raises:
            KvcalcError: there are not enough free blocks.

        >>> pool = BlockAllocator(10, 16)
        >>> pool.start(0, 100); pool.fork(0, 1); pool.used
        7
        >>> pool.append(1); pool.used, pool.copies  # its last block was shared
        (8, 1)
        """
        self.tables[sequence] = [self._new() for _ in range(-(-tokens // self.block_size))]
        self.tokens[sequence] = tokens

    def fork(self, parent: int, child: int) -> None:
        """A sequence that begins as another: every block is shared."""
        self.tables[child] = list(self.tables[parent])
        self.tokens[child] = self.tokens[parent]
        for block in self.tables[child]:
            self.refs[block] += 1

    def append(self, sequence: int) -> None:
        """One more token: in a new block where the last is full, in a copy of it where others hold it too."""
        table = self.tables[sequence]
        if self.tokens[sequence] % self.block_size == 0:
            table.append(self._new())
        elif self.refs[table[-1]] > 1:
            copy = self._new()
            self.refs[table[-1]] -= 1
            table[-1] = copy
            self.copies += 1
        self.tokens[sequence] += 1

    def end(self, sequence: int) -> None:
        """All its blocks back, those that nobody else holds."""
        for block in self.tables.pop(sequence):
            self.refs[block] -= 1
            if not self.refs[block]:
                self.free.append(block)
        del self.tokens[sequence]

    def _new(self) -> int:
        if not self.free:
            raise KvcalcError("no block is free", hint="give the pool more blocks")
        block = self.free.pop()
        self.refs[block] = 1
        return block
