"""Weights and cache, nothing else: the lessons' arithmetic, on the nameplate's bytes."""

from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.engines.memory.start import Start


def budget(start: Start) -> MemoryBudget:
    """What the nameplate's memory leaves beside the weights.

    Formula: memory_bytes * gpu_memory_utilization - weights_bytes
    Unit: bytes per GPU
    Source: `formulas/cache.py`, kv_memory_left
    """
    gpu, share = start.gpu, start.deployment.gpu_memory_utilization or 1
    requested = int(gpu.memory_bytes * share)
    return MemoryBudget(
        engine="ideal",
        engine_version=None,
        total=gpu.memory_bytes,
        requested=requested,
        weights=start.weights_bytes,
        pool=ByteRange.exactly(requested - start.weights_bytes),
    )
