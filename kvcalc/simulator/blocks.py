"""The pool of cache blocks as a scheduler sees it: how many are free, and who holds how many."""

from dataclasses import dataclass, field

NOTHING: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class Pool:
    """Blocks without a prefix cache: only their number matters. Who takes new ones lowers `free`."""

    blocks: int  # that sequences may use
    block_size: int  # tokens
    free: int = 0
    queried: int = 0  # known tokens looked up by requests that start
    hit: int = 0  # of them found
    held: dict[int, int] = field(default_factory=dict)  # by request, while it prefills or is restored

    def __post_init__(self) -> None:
        self.free = self.blocks

    def found(self, request: int, known: int) -> tuple[int, int]:
        """Leading blocks of a request that are cached, and how many of those nobody holds."""
        return NOTHING

    def start(self, request: int, known: int, resumed: bool) -> None:
        """The request takes the blocks that `found` reported."""

    def named(self, request: int, tokens: int) -> None:
        """The request has so many tokens in the cache: its full blocks can be found from now on."""

    def release(self, request: int, tokens: int, blocks: int, returns: bool) -> None:
        """All blocks of a request with so many cached tokens go back; `returns`: it will ask for them again."""
        self.free += blocks
