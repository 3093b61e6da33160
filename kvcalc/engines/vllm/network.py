"""Memory that PyTorch's allocator does not see: communicators, all-reduce buffers, growth of the context."""

from typing import Any

from kvcalc.engines.memory.budget import ByteRange
from kvcalc.engines.memory.data import constants, gib_range
from kvcalc.engines.memory.links import interconnect
from kvcalc.engines.versions import row_for
from kvcalc.engines.vllm.settings import VllmSettings
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.units import GIB


def non_torch(gpu: GpuSpec, deployment: Deployment, settings: VllmSettings) -> ByteRange:
    """What the budget loses to it, by the way the ranks are connected and the version."""
    rows: list[dict[str, Any]] = constants("vllm")["non_torch"]
    ranks = deployment.tensor_parallel_size
    alone = "pipeline" if deployment.pipeline_parallel_size > 1 else "one"
    group = alone if ranks == 1 else interconnect(gpu)
    row = row_for(rows, settings.version, group=group)
    value = row["value"] + row.get("per_doubling", 0) * max(0, ranks.bit_length() - 2)
    return ByteRange(low=int(row["low"] * GIB), value=int(value * GIB), high=int(max(row["high"], value) * GIB))


def initial_use(deployment: Deployment) -> ByteRange:
    """On the card before the engine's first measurement: outside its budget, but not outside the card."""
    data = constants("vllm")["initial_use"]
    alone = deployment.tensor_parallel_size * deployment.pipeline_parallel_size == 1
    return gib_range(data["one" if alone else "more"])
