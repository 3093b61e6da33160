"""What a GPU's memory goes to before the cache is made, and what is left for the cache."""

from typing import Literal

from kvcalc.specs.base import Assumption, Frozen

Phase = Literal["sampler", "forward", "encoder"]
End = Literal["low", "value", "high"]


class ByteRange(Frozen):
    """An estimate in bytes per GPU: about 80 % of measurements fall between low and high."""

    low: int
    value: int
    high: int

    @classmethod
    def exactly(cls, value: int) -> "ByteRange":
        return cls(low=value, value=value, high=value)

    @classmethod
    def around(cls, value: float, below: float, above: float) -> "ByteRange":
        """`value`, with room below and above it; memory is never negative."""
        return cls(low=max(0, int(value - below)), value=int(value), high=int(value + above))

    def at(self, end: End) -> int:
        return {"low": self.low, "value": self.value, "high": self.high}[end]

    def plus(self, other: "ByteRange") -> "ByteRange":
        return ByteRange(low=self.low + other.low, value=self.value + other.value, high=self.high + other.high)


NOTHING = ByteRange.exactly(0)


class Activation(Frozen):
    """The profile run's peak: the largest of three phases that never hold memory at the same time."""

    sampler: int  # logits and their copies; 0 on ranks that hold no output head
    forward: int  # one layer's intermediate results at the profiled batch
    encoder: int  # the vision or audio tower at its largest input; 0 without one
    peak: ByteRange

    @property
    def phase(self) -> Phase:
        found: Phase = "sampler"
        if self.forward > self.sampler:
            found = "forward"
        return "encoder" if self.encoder > max(self.sampler, self.forward) else found


class MemoryBudget(Frozen):
    """One GPU's memory, the fullest rank's. Everything in bytes.

    requested = weights + lora + workspace + non_torch + activation + charged graphs + reserve + pool. `pool`
    is None where the evidence ends, and `reason` says why.
    """

    engine: str
    engine_version: str | None
    total: int  # what the driver reports
    requested: int  # the engine's share of it
    weights: int  # on the GPU, offloaded ones left out
    lora: ByteRange = NOTHING  # adapter slots that are allocated with the weights
    workspace: ByteRange = NOTHING  # reserved for attention and kept: a log counts it among the weights or the peak
    non_torch: ByteRange = NOTHING  # communicators, workspaces, growth of the context
    activation: Activation | None = None  # None: the engine makes no profile run
    graphs: ByteRange = NOTHING  # CUDA graphs
    graphs_charged: bool = False  # taken out of `requested`; otherwise they come on top of it
    reserve: ByteRange = NOTHING  # what a fraction of free memory keeps back
    request_table: int = 0  # SGLang's table from requests to cached tokens, held in the reserve
    given_overhead: ByteRange | None = None  # --overhead: stands for non_torch, activation and charged graphs
    pool_given: bool = False  # --kv-memory: the pool does not follow from the rest
    initial_use: ByteRange = NOTHING  # on the card before the engine takes its first measurement
    pool: ByteRange | None
    reason: str | None = None
    starts: bool | None = None  # the pool is above zero and the card holds everything; None: not predicted
    assumptions: tuple[Assumption, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def overhead(self) -> ByteRange:
        """What the engine's share holds beside weights and cache."""
        if self.given_overhead is not None:
            return self.given_overhead
        peak = self.activation.peak if self.activation else NOTHING
        charged = self.graphs if self.graphs_charged else NOTHING
        kept = self.lora.plus(self.workspace).plus(self.reserve)
        return self.non_torch.plus(peak).plus(charged).plus(kept)

    @property
    def card(self) -> ByteRange:
        """All that the card must hold: the engine's share, what was there before, graphs that were not charged."""
        graphs = NOTHING if self.graphs_charged else self.graphs
        return ByteRange.exactly(self.requested).plus(self.initial_use).plus(graphs)

    def starts_at(self, end: End) -> bool:
        """Whether the pool is above zero and the card holds everything, at one end of the pool's range.

        What lies beside the engine's share is taken at its value: engines that take a part of what is free shrink with
        it, and the others refuse at the same figure that the pool was worked out from.
        """
        if self.pool is None:
            return False
        held = self.card.value
        if self.pool_given:
            held = self.weights + self.overhead.value + self.pool.value + self.initial_use.value
        fits = held <= self.total and self.request_table <= max(self.reserve.value, 0)
        return self.pool.at(end) > 0 and fits
