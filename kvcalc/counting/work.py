"""Operator: one kernel of a step with its bytes and FLOPs; Step: who is in the step."""

from dataclasses import dataclass
from math import log2
from typing import Literal, NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, is_array
from kvcalc.formulas.step import experts_touched

Kind = Literal[
    "embedding", "gemm", "attention", "latent_attention", "indexer", "prefill_attention", "state", "experts",
    "elementwise", "all_reduce", "all_to_all", "send", "host",
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
    absorbed: bool = False  # prompts too attend to latents as they are, not expanded to keys and values

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
        """Rows that need logits: every decoded one, the last one of a prompt, all of one that is no prompt.

        Tokens that see each other both ways are no prompt: an emulator or a block diffusion puts out every one.
        """
        return self.decode_rows + (self.prompts if self.causal else self.prefill_rows)

    @property
    def several(self) -> bool:
        """Whether a call of the kernel of attention has more than one row of a sequence; of arrays it is taken to."""
        return _present(self.prompts) or _present(self.rows_each - 1)

    def split(self, parts: int) -> "Step":
        """One of `parts` micro-batches: sequences are divided, never below one."""
        if parts == 1:
            return self
        some = greatest(self.decode / parts, 1) if _present(self.decode) else self.decode
        return self._replace(decode=some)


def _present(value: Quantity) -> bool:
    return is_array(value) or value > 0


class ExpertLoad(NamedTuple):
    """What decides how many experts a step wakes, on one GPU of an expert-parallel group of `ranks`."""

    experts: int
    top_k: int
    tokens: Quantity
    expert_bytes: float  # of one expert, this GPU's part of it
    ranks: int = 1
    parts: int = 1  # ranks that each hold a slice of every expert

    @property
    def woken(self) -> Quantity:
        """Experts of this GPU that at least one token chooses, on average."""
        return woken(self.experts, self.top_k, self.tokens) / self.ranks


# Tokens of real texts agree on experts: those of a step wake as many as tokens ** AGREEMENT independent ones would.
# Measured decode steps fit 0.8-0.9 with 128 experts (gpt-oss), 0.75-0.8 with 128 (Qwen3-235B), 0.9-1.0 with 256
# (DeepSeek): finer experts are balanced as they are trained, and wake as if drawn.
AGREEMENT = 0.79
COARSE, FINE = 128, 256  # experts: up to the first tokens agree, from the second on they do not


def agreement(experts: int) -> float:
    """The exponent of `woken`: between COARSE and FINE it rises with the logarithm of the number of experts.

    Unit: 1
    Source: a judgement on the measured steps named above

    >>> agreement(8), agreement(128), agreement(256), agreement(384)
    (0.79, 0.79, 1.0, 1.0)
    """
    fineness = log2(max(experts, COARSE) / COARSE) / log2(FINE / COARSE)
    return AGREEMENT + (1 - AGREEMENT) * min(1.0, fineness)


def woken(experts: int, top_k: int, tokens: Quantity) -> Quantity:
    """Experts of a layer that the tokens of a step wake, on average: the count of every bound and every estimate.

    Args:
        experts: routed experts of the layer.
        top_k: experts that each token chooses.
        tokens: of the step, on all GPUs that share the experts.

    Formula: experts_touched(experts, top_k, tokens ** agreement(experts))
    Unit: experts
    Source: `formulas/step.py`, experts_touched, for independent tokens; `agreement` for real ones

    >>> woken(8, 2, 1), round(woken(128, 4, 64), 1), round(woken(256, 8, 64), 1)
    (2.0, 73.2, 222.4)
    """
    return experts_touched(experts, top_k, tokens ** agreement(experts))


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
    tensors: int = 1  # of the checkpoint: engines fuse what has the same input, files keep it apart
    link_bytes: Quantity = 0  # what this GPU hands to a collective, or sends
    ranks: int = 1  # GPUs in the collective
    top_k: int = 0  # of an all-to-all whose rows cross to each node once: experts of a row; 0: to each rank by itself
    experts: ExpertLoad | None = None
    group_heads: float = 1  # query heads that share one key-value head
    head_dim: int = 0
    # Of pairs that the mask hides, for kernels that compute them all the same: later tokens of the step, and cells that
    # have left the window and are still held.
    later_flops: Quantity = 0
    behind_flops: Quantity = 0
    tiled_flops: Quantity = 0  # of one row of each sequence, where rows of others are in the same call of the kernel
    place: Literal["device", "host"] = "device"  # whose memory holds what it reads

    @property
    def bytes(self) -> Quantity:
        """Bytes that pass this GPU's memory in one call."""
        return self.weight_bytes + self.cache_bytes + self.activation_bytes

    @property
    def happens(self) -> bool:
        """Whether there is anything to do; an array is never judged empty."""
        work = self.flops + self.bytes + self.link_bytes
        return is_array(work) or bool(work > 0)
