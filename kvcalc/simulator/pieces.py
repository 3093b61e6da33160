"""Pieces: consecutive cached blocks that were computed together, and the order in which free ones are reused.

A request gives its blocks back last block first, and new blocks come from the head of that order (vLLM's free queue).
So a free piece loses blocks from its end, and a whole piece is one entry of the queue: what it costs does not depend on
how many blocks it has. Pieces are divided only where a request finds a part of one.
"""


class Segment:
    """Blocks that can be found: those of one segment of the tree of prefixes, or one request's own."""

    __slots__ = ("pieces",)

    def __init__(self) -> None:
        self.pieces: list[Piece] = []  # in the order in which they were named

    def covering(self, place: int) -> "tuple[Piece, int] | None":
        """The first named piece that holds a block, and the place up to which it is the first; None: not cached."""
        pieces = self.pieces
        if len(pieces) == 1:
            only = pieces[0]
            return (only, only.high) if only.low <= place < only.high else None
        for index, piece in enumerate(pieces):
            if piece.low <= place < piece.high:
                earlier = (one.low for one in pieces[:index] if place < one.low < piece.high)
                return piece, min(earlier, default=piece.high)
        return None


class Piece:
    """Blocks `low` to `high` of a segment; in the queue of free ones while nobody holds it."""

    __slots__ = ("high", "low", "next", "parts", "previous", "refs", "segment")

    def __init__(self, segment: Segment | None, low: int, high: int, refs: int) -> None:
        self.segment, self.low, self.high, self.refs = segment, low, high, refs
        self.parts: tuple[Piece, Piece] | None = None  # what it was divided into
        self.previous: Piece | None = None
        self.next: Piece | None = None

    def whole(self) -> "list[Piece]":
        """This piece, or what became of it, in the order of their blocks."""
        if self.parts is None:
            return [self]
        return self.parts[0].whole() + self.parts[1].whole()


class Queue:
    """Free pieces, the next to be reused first: a ring around a piece of nothing."""

    __slots__ = ("blocks", "ring")

    def __init__(self) -> None:
        self.blocks = 0
        self.ring = Piece(None, 0, 0, 0)
        self.ring.previous = self.ring.next = self.ring

    def append(self, piece: Piece) -> None:
        """At the end: reused last."""
        ring = self.ring
        last = ring.previous
        piece.previous, piece.next = last, ring
        last.next = ring.previous = piece  # type: ignore[union-attr]
        self.blocks += piece.high - piece.low

    def append_nameless(self, count: int) -> None:
        """So many blocks that nobody can find; behind others of that kind they need no piece of their own."""
        last = self.ring.previous
        if count <= 0:
            return
        if last is not self.ring and last.segment is None:  # type: ignore[union-attr]
            last.high += count  # type: ignore[union-attr]
            self.blocks += count
        else:
            self.append(Piece(None, 0, count, 0))

    def remove(self, piece: Piece) -> None:
        """Out of any place."""
        before, after = piece.previous, piece.next
        before.next, after.previous = after, before  # type: ignore[union-attr]
        piece.previous = piece.next = None
        self.blocks -= piece.high - piece.low

    def pop_blocks(self, count: int) -> None:
        """The next `count` blocks are reused and can no longer be found."""
        ring = self.ring
        while count:
            piece = ring.next
            assert piece is not None
            size = piece.high - piece.low
            if size > count:
                piece.high -= count
                self.blocks -= count
                return
            count -= size
            self.remove(piece)
            piece.high = piece.low
            if piece.segment is not None:
                piece.segment.pieces.remove(piece)

    def divide(self, piece: Piece, place: int) -> tuple[Piece, Piece]:
        """Two pieces in place of one, each held as often; the upper one is reused first."""
        lower = Piece(piece.segment, piece.low, place, piece.refs)
        upper = Piece(piece.segment, place, piece.high, piece.refs)
        piece.parts = lower, upper
        if piece.segment is not None:
            pieces = piece.segment.pieces
            at = pieces.index(piece)
            pieces[at : at + 1] = [lower, upper]
        if piece.next is not None:
            before, after = piece.previous, piece.next
            before.next, upper.previous = upper, before  # type: ignore[union-attr]
            upper.next, lower.previous = lower, upper
            lower.next, after.previous = after, lower
        return lower, upper
