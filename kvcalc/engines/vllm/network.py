"""Memory that PyTorch's allocator does not see: communicators, all-reduce buffers, growth of the context.

Source: measured starts: `memory.toml`, [[non_torch]] and [initial_use]
"""

from typing import Any

from kvcalc.engines.memory.budget import ByteRange
from kvcalc.engines.memory.data import gib_range, memory_constants
from kvcalc.engines.memory.links import interconnect
from kvcalc.engines.memory.shared import growth
from kvcalc.engines.vllm.settings import VllmSettings
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import row_for


def communicating(deployment: Deployment, moe: bool) -> int:
    """Ranks that share layers: replicas too, where they share the experts.

    Unit: GPUs
    Source: FusedMoEParallelConfig.make in vllm/model_executor/layers/fused_moe/config.py
    """
    return deployment.tensor_parallel_size * (deployment.data_parallel_size if moe else 1)


def _group(gpu: GpuSpec, deployment: Deployment, ranks: int) -> str:
    if ranks > 1:
        return interconnect(gpu)
    if deployment.pipeline_parallel_size > 1:
        return "pipeline"
    return {"pcie": "one_pcie", "amd": "one_amd"}.get(interconnect(gpu), "one")


def non_torch(gpu: GpuSpec, deployment: Deployment, settings: VllmSettings, moe: bool) -> ByteRange:
    """What the budget loses to it, by the way the ranks are connected and the version.

    Unit: bytes per GPU
    """
    rows: list[dict[str, Any]] = memory_constants("vllm")["non_torch"]
    ranks = communicating(deployment, moe)
    if gpu.unified_memory:
        return growth(ranks)
    row = row_for(rows, settings.version, group=_group(gpu, deployment, ranks))
    more = row.get("per_doubling", 0) * max(0, ranks.bit_length() - 2)
    return gib_range({"low": row["low"], "value": row["value"] + more, "high": row["high"] + more})


def initial_use(gpu: GpuSpec, deployment: Deployment, moe: bool) -> ByteRange:
    """On the card before the engine's first measurement: outside its budget, but not outside the card.

    Unit: bytes per GPU
    """
    data = memory_constants("vllm")["initial_use"]
    alone = communicating(deployment, moe) * deployment.pipeline_parallel_size == 1
    return gib_range(data["one" if alone else interconnect(gpu)])
