"""What a pool holds: the one answer that every engine gives, in the engine's own blocks.

A pool is cut into equal blocks. A sequence takes some blocks from each pool, by the rules of the groups of layers that
share it; it fits while every pool has them. vLLM has one pool, SGLang up to three (full, sliding, state).

Source: Kwon et al. 2023 (PagedAttention), section 4.2, for blocks; get_max_concurrency_for_kv_cache_config,
check_enough_kv_cache_memory and estimate_max_model_len in vllm/v1/core/kv_cache_utils.py for what is printed and
checked
"""

from bisect import bisect
from fractions import Fraction

from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec


class Group(Frozen):
    """Layers that are given blocks together; one block holds `block_size` tokens of each of them.

    A sequence of C tokens takes `fixed_blocks + ceil(min(C, most_tokens) / block_size) + extra_blocks` blocks; a group
    that holds only a state has `block_size` None.
    """

    kind: str  # full | sliding | chunked | latent | state ...
    layers: int  # that really exist: padding is not counted
    page_bytes: int  # of one layer and one block
    block_bytes: int = 0  # of all its layers together: their pages may differ in size
    block_size: int | None = None  # tokens
    most_tokens: int | None = None  # what a window (and the tokens in flight beside it) can ever keep
    extra_blocks: int = 0  # a window rarely starts at a block's first token
    fixed_blocks: int = 0  # state, whatever the length
    weight: int = 1  # blocks of the pool that one of this group's blocks takes
    token_bytes: float = 0  # one more token in all layers, on one GPU of the fullest stage
    window: int | None = None  # attention's own; tokens beyond it replace others

    def blocks(self, context: int) -> int:
        if self.block_size is None:
            return self.weight * self.fixed_blocks
        tokens = context if self.most_tokens is None else min(context, self.most_tokens)
        return self.weight * (self.fixed_blocks - (-tokens // self.block_size) + self.extra_blocks)

    def growth(self, context: int) -> float:
        """Bytes that one more token adds at this context."""
        return self.token_bytes if self.window is None or context < self.window else 0


class Pool(Frozen):
    """`num_blocks` equal blocks, of which `unusable_blocks` are never given to a sequence."""

    name: str = "cache"
    num_blocks: int
    block_bytes: int  # of all layers, padding included
    groups: tuple[Group, ...]
    unusable_blocks: int = 0
    held_back_blocks: int = 0  # left out when the engine checks at start-up that one sequence fits
    needs_padding: bool = True  # that check charges padded layers too
    charged_block_bytes: int | None = None  # what the check takes a block for, where that is not its size

    def blocks(self, context: int) -> int:
        """Blocks of one sequence of `context` tokens."""
        return sum(group.blocks(context) for group in self.groups)

    def concurrency(self, context: int) -> Fraction | None:
        """Sequences of this length, fractions counted; None: no limit."""
        needed = self.blocks(context)
        return Fraction(self.num_blocks, needed) if needed else None

    def max_batch(self, context: int) -> int | None:
        needed = self.blocks(context)
        return max(0, self.num_blocks - self.unusable_blocks) // needed if needed else None

    def needed_bytes(self, context: int) -> int:
        """What the check at start-up charges for one sequence of `context` tokens."""
        if self.needs_padding:
            return self.blocks(context) * (self.charged_block_bytes or self.block_bytes)
        return sum(group.blocks(context) * group.block_bytes for group in self.groups)

    def fits(self, context: int) -> bool:
        """Whether the check passes."""
        return self.needed_bytes(context) <= (self.num_blocks - self.held_back_blocks) * self.block_bytes


class Capacity(Frozen):
    """What the cache of one replica holds, given its pool on each GPU."""

    pools: tuple[Pool, ...]
    checked: Pool | None = None  # what the check at start-up takes for the pool, where that is not the pool itself
    pool_bytes: int  # given, per GPU of the fullest rank
    kv_cache_size_tokens: int | None  # as the engine prints it; None: the model keeps nothing per token
    max_model_len: int | None = None
    rule: str = ""  # what the printed tokens are, and in which versions
    rounding: str = ""  # what the engine adds to the mathematics, in words

    @property
    def num_blocks(self) -> int:
        return self.pools[0].num_blocks if self.pools else 0

    @property
    def block_bytes(self) -> int:
        return self.pools[0].block_bytes if self.pools else 0

    @property
    def block_size(self) -> int | None:
        """Tokens in one block of the layers that grow; the smallest where groups differ."""
        sizes = [group.block_size for pool in self.pools for group in pool.groups if group.block_size]
        return min(sizes, default=None)

    def max_concurrency(self, max_model_len: int | None = None) -> float | None:
        """Sequences of max_model_len that fit, fractions counted, as engines print it; None: no limit."""
        length = max_model_len or self.max_model_len or 1
        found = [pool.concurrency(length) for pool in self.pools]
        return min((float(one) for one in found if one is not None), default=None)

    def max_batch(self, context: int) -> int | None:
        """Whole sequences of `context` tokens that fit together; None: no limit."""
        found = [pool.max_batch(context) for pool in self.pools]
        return min((one for one in found if one is not None), default=None)

    def needed_bytes(self, max_model_len: int | None = None) -> int:
        """Bytes per GPU that one sequence of max_model_len takes, in whole blocks."""
        length = max_model_len or self.max_model_len or 1
        return sum(pool.needed_bytes(length) for pool in self.pools)

    def bytes_per_token(self, context: int) -> float:
        """Bytes per GPU that one more token adds at this context, in the engine's own layout."""
        found = sum(group.growth(context) for pool in self.pools for group in pool.groups)
        return int(found) if float(found).is_integer() else found

    def estimated_max_model_len(self, limit: int) -> int:
        """The longest single sequence that fits, at most `limit`; 0: none. Found by halving, as vLLM does."""
        lengths = range(1, limit + 1)
        return bisect(lengths, False, key=lambda length: not all(pool.fits(length) for pool in self.pools))


def length_of(model: ModelSpec, deployment: Deployment) -> int | None:
    """max_model_len, else the model's own maximum; None: neither.

    Unit: tokens
    """
    return deployment.max_model_len or model.max_context
