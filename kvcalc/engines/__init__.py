"""How a real engine spends its memory."""

from collections.abc import Iterable

from kvcalc.counting.cache import cache_profile
from kvcalc.engines import ideal, vllm
from kvcalc.engines.capacity import Capacity, length_of, tightest
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int) -> Capacity:
    """What the cache of one replica holds when each GPU has `pool_bytes` for it."""
    if pool_bytes < 0:
        raise KvcalcError(f"the pool cannot be {pool_bytes} bytes", hint="give --kv-memory a size of zero or more")
    return tightest([_stage(model, deployment, pool_bytes, layers) for layers in _stages(model, deployment)])


def _stages(model: ModelSpec, deployment: Deployment) -> Iterable[frozenset[int]]:
    every = sorted(index for group in model.groups for index in group.layers)
    size = -(-len(every) // deployment.pipeline_parallel_size)
    return [frozenset(every[start : start + size]) for start in range(0, len(every), size)]


def _stage(model: ModelSpec, deployment: Deployment, pool_bytes: int, layers: frozenset[int]) -> Capacity:
    if deployment.engine == "ideal":
        dtype = cache_dtype(model, deployment)
        profile = cache_profile(model, dtype, layout=deployment.layout, layers=layers)
        return ideal.capacity(profile, pool_bytes, length_of(model, deployment))
    if deployment.engine == "vllm":
        return vllm.capacity(model, deployment, pool_bytes, layers)
    raise KvcalcError(f"engine {deployment.engine!r} has no capacity rule yet", hint="use --engine vllm or ideal")


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's element type: what was asked, else what the checkpoint says, else the model's own."""
    if deployment.kv_cache_dtype != "auto":
        return deployment.kv_cache_dtype
    return model.kv_cache_dtype or (model.dtype if deployment.dtype == "auto" else deployment.dtype)
