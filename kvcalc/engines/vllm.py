"""vLLM V1: one pool of equal blocks."""

from kvcalc.counting.cache import cache_profile
from kvcalc.engines.capacity import Capacity, Group, Pool, length_of
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int, layers: frozenset[int]) -> Capacity:
    """Blocks and tokens of a uniform model."""
    dtype = deployment.kv_cache_dtype if deployment.kv_cache_dtype != "auto" else model.kv_cache_dtype or model.dtype
    profile = cache_profile(model, dtype, layout=deployment.layout, layers=layers)
    if len(profile.groups) != 1 or profile.groups[0].window or profile.groups[0].fixed_bytes:
        raise KvcalcError("vLLM's groups of unlike layers are not built yet", hint="use --engine ideal")
    one = profile.groups[0]
    block = deployment.block_size or (64 if one.kind == "latent" else 16)
    page = int(one.bytes_per_token * block) // one.layers
    group = Group(kind=one.kind, layers=one.layers, page_bytes=page, block_size=block)
    pool = Pool(
        num_blocks=pool_bytes // (page * one.layers), block_bytes=page * one.layers, groups=(group,), unusable_blocks=1
    )
    length = length_of(model, deployment)
    tokens = pool.num_blocks * block * deployment.decode_context_parallel_size
    return Capacity(pools=(pool,), pool_bytes=pool_bytes, kv_cache_size_tokens=tokens, max_model_len=length)
