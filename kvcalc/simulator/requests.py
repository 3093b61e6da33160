"""Requests: when each arrives, how long its prompt and answer are, and which tokens it shares with others."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

Chain = tuple[int, ...]  # ids of consecutive pieces of a request's tokens; equal ids mean equal tokens up to there


@dataclass(frozen=True, slots=True)
class Requests:
    """A workload. Times in seconds, lengths in tokens; one entry a request, in the order of arrival.

    In a closed loop `clients` requests are sent at once and the next one whenever an answer is complete; a request with
    a predecessor (`after`) is sent `pause_s` after that one's answer. Arrivals of such requests are not read.
    """

    arrival_s: Sequence[float]
    prompt: Sequence[int]
    output: Sequence[int]
    chains: Sequence[Chain | None] | None = None
    id_tokens: int = 0  # tokens of one id of a chain; 0: `sizes` says
    sizes: dict[int, int] = field(default_factory=dict)  # tokens of each id
    clients: int | None = None
    think_s: float = 0.0  # between an answer and a client's next request
    after: Sequence[int] | None = None  # index of the request whose answer this one waits for, or -1
    pause_s: Sequence[float] | None = None
    priority: Sequence[int] | None = None  # the smallest goes first, where the scheduler heeds it

    def __len__(self) -> int:
        return len(self.prompt)


@dataclass(slots=True)
class Times:
    """When each request was sent, had its first token and its last; NaN: never."""

    sent_s: "array[float]"
    first_s: "array[float]"
    last_s: "array[float]"

    @classmethod
    def of(cls, count: int) -> "Times":
        blank = array("d", [float("nan")]) * count
        return cls(blank[:], blank[:], blank[:])
