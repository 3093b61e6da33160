"""Memory before the cache: from a GPU's total to the pool."""

from kvcalc.engines.memory.budget import NOTHING, ByteRange, MemoryBudget
from kvcalc.engines.memory.lora import adapter_bytes
from kvcalc.engines.memory.settings import NOT_OBSERVED, Observed
from kvcalc.engines.memory.shape import ProfileShape, profile_shape
from kvcalc.engines.versions import check_version
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

UNIFIED = "this GPU shares its memory with the host: what else runs there is unknown"


def memory_before_cache(
    model: ModelSpec,
    gpu: GpuSpec,
    deployment: Deployment,
    weights_bytes: int,
    observed: Observed = NOT_OBSERVED,
) -> MemoryBudget:
    """Where one GPU's memory goes, and what is left for the cache.

    Args:
        model: read for the dimensions that the profile run depends on.
        gpu: its usable memory is what the driver reports.
        deployment: engine, version, flags; what is not given is taken from the engine's defaults, as assumptions.
        weights_bytes: bytes of weights on the fullest GPU, as loaded (`loaded_weight_extra` included).
        observed: what a start-up log says and no flag does.
    """
    length = deployment.max_model_len or model.max_context
    shape = profile_shape(model, deployment)
    lora = adapter_bytes(model, deployment)
    return budget_of_shape(shape, gpu, deployment, weights_bytes, lora, length, observed)


def budget_of_shape(
    shape: ProfileShape,
    gpu: GpuSpec,
    deployment: Deployment,
    weights_bytes: int,
    lora: ByteRange = NOTHING,
    max_model_len: int | None = None,
    observed: Observed = NOT_OBSERVED,
) -> MemoryBudget:
    """The same from dimensions alone: for a model of which no config is at hand."""
    check_version(deployment)
    weights = max(0, weights_bytes - deployment.cpu_offload_bytes)
    if deployment.engine == "ideal":
        found = _ideal(gpu, deployment, weights)
    elif deployment.engine == "vllm":
        from kvcalc.engines.vllm import memory as memory_vllm

        found = memory_vllm.budget(shape, gpu, deployment, weights, lora, max_model_len, observed)
    elif deployment.engine == "sglang":
        from kvcalc.engines.sglang import memory as memory_sglang

        found = memory_sglang.budget(shape, gpu, deployment, weights + lora.value, max_model_len)
    elif deployment.engine == "trtllm":
        from kvcalc.engines.trtllm import memory as memory_trtllm

        found = memory_trtllm.budget(shape, gpu, deployment, weights + lora.value)
    else:
        from kvcalc.engines.llamacpp import memory as memory_llamacpp

        found = memory_llamacpp.budget(shape, gpu, deployment, weights + lora.value)
    if gpu.unified_memory and deployment.engine != "ideal":
        found = replace(found, pool=None, reason=UNIFIED)
    return _judged(_overridden(found, deployment))


def _ideal(gpu: GpuSpec, deployment: Deployment, weights: int) -> MemoryBudget:
    """Weights and cache, nothing else: the lessons' arithmetic, on the nameplate's bytes."""
    requested = int(gpu.memory_bytes * (deployment.gpu_memory_utilization or 1))
    return MemoryBudget(
        engine="ideal",
        engine_version=None,
        total=gpu.memory_bytes,
        requested=requested,
        weights=weights,
        pool=ByteRange.exactly(requested - weights),
    )


def _overridden(found: MemoryBudget, deployment: Deployment) -> MemoryBudget:
    """`--overhead` replaces what was predicted, `--kv-memory` sets the pool outright."""
    if deployment.overhead_bytes is not None:
        given = ByteRange.exactly(deployment.overhead_bytes)
        left = found.requested - found.weights - deployment.overhead_bytes
        found = replace(
            found,
            given_overhead=given,
            pool=ByteRange.exactly(left),
            reason=None,
            assumptions=(
                *found.assumptions,
                Assumption(name="overhead", value=deployment.overhead_bytes, why="given: replaces the prediction"),
            ),
        )
    if deployment.kv_memory_bytes is not None:
        found = replace(found, pool=ByteRange.exactly(deployment.kv_memory_bytes), pool_given=True, reason=None)
    return found


def _judged(found: MemoryBudget) -> MemoryBudget:
    """Whether the engine starts: a pool above zero, and a card that holds everything."""
    if found.pool is None:
        return found
    held = found.card.value
    if found.pool_given:
        held = found.weights + found.overhead.value + found.pool.value + found.initial_use.value
    starts = found.pool.value > 0 and held <= found.total and found.request_table <= max(found.reserve.value, 0)
    return replace(found, starts=starts)
