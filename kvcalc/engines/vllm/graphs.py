"""vLLM's CUDA graphs: how many sizes are captured and what they hold.

Source: _set_cudagraph_sizes in vllm/config/vllm.py for the sizes; what they hold was measured on 59 captures
"""

from kvcalc.engines.memory.budget import NOTHING, ByteRange
from kvcalc.engines.memory.data import gib_range, memory_constants
from kvcalc.engines.memory.links import interconnect
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.vllm.settings import VllmSettings
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import since
from kvcalc.units import GIB


def capture_sizes(largest: int, coarse: bool) -> int:
    """How many batch sizes are captured: 1, 2, 4, steps of 8 up to 256, then of 16 (of 8 in older versions).

    Unit: graphs
    """
    small = sum(size <= largest for size in (1, 2, 4))
    eights = max(0, min(largest, 256 if coarse else largest) // 8)
    sixteens = max(0, (largest - 256) // 16) if coarse else 0
    return small + eights + sixteens


def graph_memory(
    shape: ProfileShape, gpu: GpuSpec, deployment: Deployment, settings: VllmSettings
) -> tuple[ByteRange, bool]:
    """CUDA graphs, and whether the engine takes its estimate of them out of the requested memory.

    Unit: bytes per GPU
    """
    data = memory_constants("vllm")["graphs"]
    if deployment.enforce_eager:
        return NOTHING, False
    if settings.runner == "V0":
        return gib_range(data["v0"]), False
    coarse = since(settings.version, data["steps_of_16_since"])
    if coarse:
        blackwell = interconnect(gpu) == "nvlink_blackwell" and since(settings.version, data["wide_since"])
        per_sequence = 2 * (1 + deployment.num_speculative_tokens)
        usual = min(per_sequence * settings.sequences, 1024 if blackwell else 512)
        largest = min(deployment.max_cudagraph_capture_size or usual, settings.batched_tokens)
        count = capture_sizes(largest, coarse) + capture_sizes(min(settings.sequences, largest), coarse)
    else:
        usual = min(2 * settings.sequences, 512)
        count = capture_sizes(min(deployment.max_cudagraph_capture_size or usual, settings.batched_tokens), coarse)
    moe = data["moe"] if shape.moe else 0
    value = count / data["per_sizes"] * (data["base"] + data["per_layer"] * shape.layers + moe) * GIB
    first, last = data["v2_uncounted"]
    charged = since(settings.version, data["charged_since"])
    if settings.runner == "V2" and since(settings.version, first) and not since(settings.version, last):
        charged = False
    below, above = ("below_charged", "above_charged") if charged else ("below", "above")
    above = "above_expert_parallel" if shape.moe and deployment.enable_expert_parallel else above
    below = "below_v2" if settings.runner == "V2" else below
    return ByteRange.around(value, data[below] * GIB, data[above] * GIB), charged
