"""Operator: one kernel of a step with its bytes and FLOPs; Step: who is in the step."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, is_array
from kvcalc.formulas.step import experts_touched

Kind = Literal[
    "embedding", "gemm", "attention", "latent_attention", "prefill_attention", "state", "experts", "elementwise",
    "all_reduce", "all_to_all", "send",
]  # fmt: skip


class Step(NamedTuple):
    """Sequences that decode and tokens of prompts that pass through the model together."""

    decode: Quantity = 0  # sequences
    context: Quantity = 0  # cached tokens of each
    rows_each: Quantity = 1  # rows of each: 1, or gamma + 1 in a verification
    prompts: Quantity = 0
    tokens: Quantity = 0  # of each prompt in this step
    start: Quantity = 0  # cached before them
    causal: bool = True

    @property
    def decode_rows(self) -> Quantity:
        return self.decode * self.rows_each

    @property
    def prefill_rows(self) -> Quantity:
        return self.prompts * self.tokens

    @property
    def rows(self) -> Quantity:
        return self.decode_rows + self.prefill_rows

    @property
    def head_rows(self) -> Quantity:
        """Rows that need logits: every decoded one, the last one of a prompt."""
        return self.decode_rows + self.prompts

    def split(self, parts: int) -> "Step":
        """One of `parts` micro-batches: sequences are divided, never below one."""
        if parts == 1:
            return self
        some = greatest(self.decode / parts, 1) if _present(self.decode) else self.decode
        return self._replace(decode=some)


def _present(value: Quantity) -> bool:
    return is_array(value) or value > 0


class ExpertLoad(NamedTuple):
    """What decides how many experts a step touches, on one GPU of an expert-parallel group of `ranks`."""

    experts: int
    top_k: int
    tokens: Quantity
    expert_bytes: float  # of one expert, this GPU's part of it
    ranks: int = 1

    def touched(self, tokens: Quantity | None = None) -> Quantity:
        """Experts of this GPU that at least one token chooses, on average, when all are equally popular.

        `tokens` in place of the step's own: fewer, where tokens agree more than chance would have it.
        """
        drawn = self.tokens if tokens is None else tokens
        return experts_touched(self.experts, self.top_k, drawn) / self.ranks


@dataclass(frozen=True, slots=True)
class Operator:
    """`count` equal calls of one kernel on one GPU. Bytes and FLOPs are of one call."""

    name: str
    kind: Kind
    count: int
    flops: Quantity = 0
    weight_bytes: Quantity = 0
    cache_bytes: Quantity = 0
    activation_bytes: Quantity = 0
    compute: str = "bf16"  # element type of the arithmetic: whose peak holds
    format: str = "bf16"  # how weights, or for attention the cache, are stored
    bits: float = 16  # of one stored weight, scales left out
    rows: Quantity = 0
    context: Quantity = 0  # tokens that one row walks through, one after the other
    link_bytes: Quantity = 0  # what this GPU hands to a collective, or sends
    ranks: int = 1  # GPUs in the collective
    experts: ExpertLoad | None = None
    group_heads: float = 1  # query heads that share one key-value head
    head_dim: int = 0

    @property
    def bytes(self) -> Quantity:
        """Bytes that pass this GPU's memory in one call."""
        return self.weight_bytes + self.cache_bytes + self.activation_bytes

    @property
    def happens(self) -> bool:
        """Whether there is anything to do; an array is never judged empty."""
        work = self.flops + self.bytes + self.link_bytes
        return is_array(work) or bool(work > 0)
