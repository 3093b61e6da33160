"""The pool with a prefix cache: full blocks stay findable until they are reused, shared ones are counted.

Source: vllm/v1/core/kv_cache_manager.py (`get_computed_blocks`, `allocate_slots`, `free`) and block_pool.py. Blocks are
handled in pieces (module `pieces`). Who takes new blocks only lowers `free`; they leave the queue's head before the
next look-up, which gives the same blocks, for the queue is first in, first out.
"""

from collections.abc import Sequence

from kvcalc.simulator.pieces import Piece, Queue, Segment
from kvcalc.simulator.prefixes import Path

Found = Sequence[tuple[Piece, int, int]]  # pieces of a request's first blocks, and which blocks of them it may take

NOWHERE: Found = ()


class PrefixPool:
    """Blocks that may be found again by what they hold. The same calls as `blocks.Pool`."""

    def __init__(
        self, blocks: int, block_size: int, paths: Sequence[Path], sizes: Sequence[int], dropped: int = 0
    ) -> None:
        """`paths` and `sizes` as `prefixes.segments_of` gives them; `dropped`: cached tokens recomputed (EAGLE)."""
        self.blocks, self.block_size, self.free, self.dropped = blocks, block_size, blocks, dropped
        self.paths, self.sizes = paths, sizes
        self.queried = self.hit = 0
        self.segments: dict[int, Segment] = {}
        self.own: dict[int, Segment] = {}  # of requests that were preempted
        self.held: dict[int, list[Piece]] = {}
        self.reached: dict[int, int] = {}  # blocks of a request that are in pieces already
        self.queue = Queue()
        self.queue.append(Piece(None, 0, blocks, 0))
        self._found: Found = NOWHERE

    def found(self, request: int, known: int) -> tuple[int, int]:
        """Leading blocks that are cached, and how many of those nobody holds; never all: one token is computed."""
        if not self.paths[request] and request not in self.own:
            self._found = NOWHERE  # it shares nothing, and was never stopped
            return 0, 0
        if self.queue.blocks > self.free:
            self.queue.pop_blocks(self.queue.blocks - self.free)
        most = (known - 1 - self.dropped) // self.block_size
        pieces: list[tuple[Piece, int, int]] = []
        count = idle = 0
        for segment, size in self._segments(request):
            place = 0
            while place < size and count < most:
                covering = segment.covering(place)
                if covering is None:
                    self._found = pieces
                    return count, idle
                piece, end = covering
                end = min(end, place + most - count)
                pieces.append((piece, place, end))
                count += end - place
                idle += 0 if piece.refs else end - place
                place = end
        self._found = pieces
        return count, idle

    def _segments(self, request: int) -> list[tuple[Segment, int]]:
        """A request's segments in their order, its own at the end."""
        found: list[tuple[Segment, int]] = []
        for number in self.paths[request]:
            segment = self.segments.get(number)
            if segment is None:
                return found
            found.append((segment, self.sizes[number]))
        own = self.own.get(request)
        if own is not None:
            found.append((own, 1 << 40))
        return found

    def start(self, request: int, known: int, resumed: bool) -> None:
        """The request holds what `found` reported last."""
        if not resumed:
            self.queried += known
        if not self._found:
            return
        held, count = [], 0
        for piece, low, high in self._found:
            part = self._part(piece, low, high)
            if not part.refs:
                self.queue.remove(part)
                self.free -= part.high - part.low
            part.refs += 1
            held.append(part)
            count += high - low
        self.held[request] = held
        self.reached[request] = count
        if not resumed:
            self.hit += count * self.block_size

    def _part(self, piece: Piece, low: int, high: int) -> Piece:
        if piece.parts is not None:  # divided a moment ago, for an earlier block of the same request
            piece = next(part for part in piece.whole() if part.low <= low < part.high)
        if low > piece.low:
            piece = self.queue.divide(piece, low)[1]
        if high < piece.high:
            piece = self.queue.divide(piece, high)[0]
        return piece

    def named(self, request: int, tokens: int) -> None:
        """Shared blocks that are full now can be found by others; a request's own need no name before it stops."""
        if not self.paths[request]:
            return
        full, reached = tokens // self.block_size, self.reached.get(request, 0)
        if full <= reached:
            return
        begin = 0
        for number in self.paths[request]:
            size = self.sizes[number]
            low, high = max(reached - begin, 0), min(full - begin, size)
            if low < high:
                segment = self.segments.get(number)
                if segment is None:
                    segment = self.segments[number] = Segment()
                piece = Piece(segment, low, high, 1)
                segment.pieces.append(piece)
                self.held.setdefault(request, []).append(piece)
                self.reached[request] = reached = begin + high
            begin += size
            if begin >= full:
                return

    def release(self, request: int, tokens: int, blocks: int, returns: bool) -> None:
        """Everything goes back, last block first; a request that `returns` leaves its full blocks findable."""
        if not returns and not self.paths[request] and request not in self.own:
            self.queue.append_nameless(blocks)
            self.free += blocks
            return
        self.named(request, tokens)
        self.free += self._give_back_own(request, tokens // self.block_size, blocks, returns)
        for piece in reversed(self.held.pop(request, ())):
            for part in reversed(piece.whole()):
                part.refs -= 1
                if not part.refs:
                    self.queue.append(part)
                    self.free += part.high - part.low
        self.reached.pop(request, None)
        if not returns:
            self.own.pop(request, None)

    def _give_back_own(self, request: int, full: int, blocks: int, returns: bool) -> int:
        """The blocks that are in no piece: those not full first, for they are the last ones."""
        reached = self.reached.get(request, 0)
        if not returns:
            self.queue.append_nameless(blocks - reached)
            return blocks - reached
        self.queue.append_nameless(blocks - max(full, reached))
        if full > reached:
            begin = sum(self.sizes[number] for number in self.paths[request])
            segment = self.own.setdefault(request, Segment())
            piece = Piece(segment, reached - begin, full - begin, 0)
            segment.pieces.append(piece)
            self.queue.append(piece)
        return blocks - reached
