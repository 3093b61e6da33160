"""How a real engine spends its memory. Each engine is a module of its name, with its `capacity`."""

from importlib import import_module

from kvcalc.counting.layout import pipeline_stages, rank_weights
from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.weights import mtp_weight_bytes, stored_bytes, weight_bytes
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.dtypes import cache_dtype as asked_cache_dtype
from kvcalc.engines.dtypes import engine_dtype
from kvcalc.engines.memory.loaded import expert_kernels, loaded_weight_extra
from kvcalc.engines.memory.weight_blocks import check_weight_blocks
from kvcalc.engines.versions import check_version
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment, Layout
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

__all__ = ["Capacity", "cache_dtype", "capacity", "loaded_weight_bytes"]


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int) -> Capacity:
    """What the cache of one replica holds when each GPU has `pool_bytes` for it."""
    if pool_bytes < 0:
        raise KvcalcError(f"the pool cannot be {pool_bytes} bytes", hint="give --kv-memory a size of zero or more")
    check_version(deployment)
    check_layout(model, deployment.layout)
    check_weight_blocks(model, deployment)
    if deployment.decode_context_parallel_size > 1 and deployment.engine not in ("ideal", "vllm"):
        raise KvcalcError(
            f"how {deployment.engine} shares a sequence's cache between GPUs is not known",
            hint="leave --decode-context-parallel-size out, or use --engine vllm or ideal",
        )
    stages = pipeline_stages(model, deployment.pipeline_parallel_size)
    rules = import_module(f"kvcalc.engines.{deployment.engine}.capacity")  # one engine's, not all
    held: Capacity = rules.capacity(model, deployment, pool_bytes, stages)
    return held


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's element type under this engine: as asked, else as the checkpoint says, else as the engine does."""
    if deployment.engine == "vllm":
        from kvcalc.engines.vllm import capacity as vllm

        return vllm.planned_dtype(model, deployment)
    if deployment.engine == "llamacpp" and deployment.kv_cache_dtype == "auto":
        return "f16"  # whatever the file's tensors are
    return asked_cache_dtype(model, deployment)


def loaded_weight_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None = None) -> int:
    """Weights on the fullest GPU, as this engine loads them.

    `ideal` divides the file evenly. Engines replicate, pad and round, keep a rotary table, and load draft layers only
    to speculate. The kernels of a GPU may want experts in a form of their own; None: as on GPUs without one.
    """
    layout = deployment.layout
    if deployment.engine == "ideal":
        return _even_share(model, layout)
    drafts = deployment.num_speculative_tokens > 0
    if deployment.engine == "llamacpp":
        from kvcalc.engines.llamacpp import capacity as llamacpp

        return llamacpp.offloaded_bytes(model, layout)
    check_layout(model, layout)
    check_weight_blocks(model, deployment)
    kernels = expert_kernels(deployment, gpu)
    held = rank_weights(model, layout, drafts=drafts, dtype=engine_dtype(model, deployment), kernels=kernels)
    return held.fullest + loaded_weight_extra(model)


def _even_share(model: ModelSpec, layout: Layout) -> int:
    check_layout(model, layout)
    ranks = layout.tensor_parallel_size * layout.pipeline_parallel_size
    whole = weight_bytes(model) - mtp_weight_bytes(model)
    if not layout.enable_expert_parallel:
        return -(-whole // ranks)
    experts = sum(
        group.count * stored_bytes(tensor)
        for group in model.groups
        for tensor in group.tensors
        if tensor.category == "experts"
    )
    return -(-(whole - experts) // ranks) + -(-experts // (ranks * layout.data_parallel_size))
