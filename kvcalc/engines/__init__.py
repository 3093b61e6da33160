"""How a real engine spends its memory."""

from kvcalc.counting.cache import cache_profile
from kvcalc.engines import ideal, vllm
from kvcalc.engines.capacity import Capacity, length_of, tightest
from kvcalc.engines.dtypes import cache_dtype
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec

__all__ = ["Capacity", "cache_dtype", "capacity"]


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int) -> Capacity:
    """What the cache of one replica holds when each GPU has `pool_bytes` for it."""
    if pool_bytes < 0:
        raise KvcalcError(f"the pool cannot be {pool_bytes} bytes", hint="give --kv-memory a size of zero or more")
    stages = _stages(model, deployment)
    if deployment.engine == "ideal":
        length, dtype = length_of(model, deployment), cache_dtype(model, deployment)
        profiles = [cache_profile(model, dtype, layout=deployment.layout, layers=stage) for stage in stages]
        return tightest([ideal.capacity(profile, pool_bytes, length) for profile in profiles])
    if deployment.engine == "vllm":
        return vllm.capacity(model, deployment, pool_bytes, stages)
    raise KvcalcError(f"engine {deployment.engine!r} has no capacity rule yet", hint="use --engine vllm or ideal")


def _stages(model: ModelSpec, deployment: Deployment) -> list[frozenset[int]]:
    every = sorted(index for group in model.groups for index in group.layers)
    size = -(-len(every) // deployment.pipeline_parallel_size)
    return [frozenset(every[start : start + size]) for start in range(0, len(every), size)]
