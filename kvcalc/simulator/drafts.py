"""Drafted tokens as a scheduler sees them: how many of a step's drafts are accepted, sampled or as expected.

Source: Leviathan et al. 2023, section 3.1: drafts count up to the first that is rejected, and one token more is the
target's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

Accepting = Literal["sampled", "expected"]


@dataclass(frozen=True, slots=True)
class Drafts:
    """What each decoding sequence brings to a step beside its own row."""

    positions: tuple[float, ...]  # acceptance of each drafted token, given that all before it were accepted
    way: Accepting = "sampled"
    lookahead: int = 0  # cache slots beyond the drafts, which the drafter itself writes
    seed: int = 0

    @property
    def rows(self) -> int:
        """Of one sequence in a step."""
        return 1 + len(self.positions)

    @property
    def tokens(self) -> float:
        """Expected of one step: 1 + p1 + p1 p2 + ...

        >>> round(Drafts((0.8,) * 4).tokens, 4)
        3.3616
        """
        total = share = 1.0
        for one in self.positions:
            share *= one
            total += share
        return total

    def giver(self) -> Callable[[int], int]:
        """For a request, the tokens of its next step; each request has a stream of its own, whoever else runs."""
        if self.way == "expected":
            return self._expected()
        streams: dict[int, Random] = {}

        def sampled(request: int) -> int:
            draw = streams.setdefault(request, Random((self.seed << 32) + request)).random
            given = 1
            for one in self.positions:
                if draw() >= one:
                    break
                given += 1
            return given

        return sampled

    def _expected(self) -> Callable[[int], int]:
        """Whole tokens whose running mean is the expected number."""
        owed: dict[int, float] = {}
        mean = self.tokens

        def expected(request: int) -> int:
            total = owed.get(request, 0.0) + mean
            given = int(total + 1e-9)
            owed[request] = total - given
            return given

        return expected
