"""What the mathematics needs: elements × dtype, no blocks, no padding, nothing reserved.

Source: `formulas/cache.py`, kv_tokens_that_fit and max_batch
"""

from fractions import Fraction

from kvcalc.counting.cache import CacheProfile, cache_profile
from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.engines.ideal.dtypes import cache_dtype
from kvcalc.engines.pages.room import admitted, asked
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec

__all__ = ["admitted", "asked", "capacity"]


class IdealPool(Pool):
    """Bytes are the blocks, and a profile says what a sequence takes of them."""

    profile: CacheProfile
    spread: int = 1  # decode-context-parallel ranks that share a sequence's tokens

    def exactly(self, context: int) -> Fraction:
        """Bytes of one sequence on one GPU."""
        fixed = self.profile.fixed_bytes
        return fixed + (Fraction(self.profile.stored(context)) - fixed) / self.spread

    def blocks(self, context: int) -> int:
        return -int(-self.exactly(context) // 1)

    def concurrency(self, context: int) -> Fraction | None:
        needed = self.exactly(context)
        return self.num_blocks / needed if needed else None

    def max_batch(self, context: int) -> int | None:
        sequences = self.concurrency(context)
        return None if sequences is None else int(sequences)


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, stages: list[frozenset[int]]) -> Capacity:
    """Whole tokens and sequences in `pool_bytes`: the pipeline stage that holds the least decides.

    The tokens are those of whole-length sequences: pool_bytes * length / stored(length).
    """
    length, dtype = length_of(model, deployment), cache_dtype(model, deployment)
    spread = deployment.decode_context_parallel_size
    if deployment.draft is not None and model.mtp:
        stages = [*stages[:-1], stages[-1].union(*(group.layers for group in model.mtp))]
        model = replace(model, groups=(*model.groups, *model.mtp), mtp=())
    state = None if deployment.mamba_ssm_cache_dtype == "auto" else deployment.mamba_ssm_cache_dtype
    profiles = [cache_profile(model, dtype, state, deployment.layout, stage) for stage in stages]
    fullest = max(profiles, key=lambda profile: profile.stored(length or 1))
    pool = IdealPool(
        num_blocks=pool_bytes, block_bytes=1, groups=_groups(fullest, spread), profile=fullest, spread=spread
    )
    tokens = None
    if fullest.bytes_per_token_at_start:
        sequences = pool.concurrency(length or 1)
        tokens = None if sequences is None else int(sequences * (length or 1))
    return Capacity(
        pools=(pool,),
        pool_bytes=pool_bytes,
        kv_cache_size_tokens=tokens,
        max_model_len=length,
        rule="tokens = pool × max_model_len / bytes of one such sequence",
    )


def _groups(profile: CacheProfile, spread: int) -> tuple[Group, ...]:
    """For what grows and how; the profile itself says what is stored."""
    return tuple(
        Group(
            kind=group.kind,
            layers=group.layers,
            page_bytes=1,
            token_bytes=group.bytes_per_token / spread,
            window=group.window,
        )
        for group in profile.groups
    )
