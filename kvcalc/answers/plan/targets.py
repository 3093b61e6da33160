"""What a deployment must keep, and by how much it does: means of a closed loop, on the estimate's value or its high."""

from typing import NamedTuple

from kvcalc.timing.estimate import Estimate
from kvcalc.timing.serving import Steady


class Targets(NamedTuple):
    """Seconds; None: not limited. `judge`: the end of the estimate's range that must keep them."""

    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    output_len: int
    judge: str = "value"

    @property
    def waits(self) -> bool:
        """Whether a target limits how long a request may wait; without one nobody does."""
        return self.ttft_s is not None or self.e2e_s is not None

    def uses(self, found: Steady) -> dict[str, float]:
        """By target, what is there as a share of what is allowed: 1 is the limit."""
        whole = Estimate(*(found.whole_s(self.output_len, end) for end in Estimate._fields))
        have = {"ttft": (found.ttft, self.ttft_s), "tpot": (found.tpot, self.tpot_s), "e2e": (whole, self.e2e_s)}
        return {
            name: float(getattr(value, self.judge)) / limit
            for name, (value, limit) in have.items()
            if limit is not None and value is not None
        }
