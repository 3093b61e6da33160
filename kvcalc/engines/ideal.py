"""What the mathematics needs: elements × dtype, no blocks, no padding, nothing reserved."""

from fractions import Fraction

from kvcalc.counting.cache import CacheProfile
from kvcalc.engines.capacity import Capacity, Pool


class IdealPool(Pool):
    """Bytes are the blocks."""

    profile: CacheProfile

    def blocks(self, context: int) -> int:
        return -(-Fraction(self.profile.stored(context)) // 1)

    def concurrency(self, context: int) -> Fraction | None:
        needed = Fraction(self.profile.stored(context))
        return Fraction(self.num_blocks) / needed if needed else None

    def max_batch(self, context: int) -> int | None:
        sequences = self.concurrency(context)
        return None if sequences is None else int(sequences)


def capacity(profile: CacheProfile, pool_bytes: int, max_model_len: int | None) -> Capacity:
    """Whole tokens and sequences in `pool_bytes`.

    Formula: floor(pool_bytes * length / stored(length))
    Source: the definition of the cache profile, inverted
    """
    pool = IdealPool(num_blocks=pool_bytes, block_bytes=1, groups=(), profile=profile)
    tokens = None
    if profile.bytes_per_token_at_start:
        length = max_model_len or 1
        sequences = pool.concurrency(length)
        tokens = None if sequences is None else int(sequences * length)
    return Capacity(pools=(pool,), pool_bytes=pool_bytes, kv_cache_size_tokens=tokens, max_model_len=max_model_len)
