"""llama.cpp: no profile run and no fraction; the card must hold weights, compute buffers and the cache asked for.

Source: `memory.toml`, whose `evidence` says that no budget was measured: the compute buffer is a judgement
"""

import sys

from kvcalc.engines.llamacpp.asked import SLOTS
from kvcalc.engines.memory.budget import Activation, ByteRange, MemoryBudget
from kvcalc.engines.memory.data import gib_range, memory_constants
from kvcalc.engines.memory.start import Start
from kvcalc.specs.base import Assumption
from kvcalc.specs.deployment import Deployment


def budget(start: Start) -> MemoryBudget:
    """What is free for the cache; how much of it llama.cpp takes is up to `-c` and `-np`."""
    data, deployment, gpu = memory_constants("llamacpp"), start.deployment, start.gpu
    weights = start.weights_bytes + start.lora.value
    batch = ubatch_size(deployment)
    buffer = batch * (start.shape.vocab + start.shape.hidden) * 4
    peak = ByteRange(low=int(data["buffer_low"] * buffer), value=buffer, high=int(data["buffer_high"] * buffer))
    outside = gib_range(data["outside"])
    requested = int(gpu.usable_memory_bytes * (deployment.gpu_memory_utilization or 1))
    left = requested - weights
    used = outside.plus(peak)
    return MemoryBudget(
        engine="llamacpp",
        engine_version=deployment.engine_version,
        total=gpu.usable_memory_bytes,
        requested=requested,
        weights=weights,
        non_torch=outside,
        activation=Activation(sampler=buffer, forward=0, encoder=0, peak=peak),
        pool=ByteRange(low=left - used.high, value=left - used.value, high=left - used.low),
        assumptions=(
            Assumption(name="compute buffer", value=buffer, why=f"{data['evidence']}; --overhead replaces it"),
            *_settings(deployment),
        ),
    )


def ubatch_size(deployment: Deployment) -> int:
    """Tokens that are computed together: -ub, at most the logical batch.

    Unit: tokens
    """
    return min(
        deployment.ubatch_size or int(memory_constants("llamacpp")["physical_batch"]),
        deployment.max_num_batched_tokens or sys.maxsize,
    )


def _settings(deployment: Deployment) -> tuple[Assumption, ...]:
    """What was not said."""
    found = [
        Assumption(name="ubatch_size", value=ubatch_size(deployment), why="tokens computed together: llama.cpp's -ub")
    ]
    if deployment.n_gpu_layers is None and not deployment.n_cpu_moe:
        why = "-ngl and --n-cpu-moe leave some to the CPU"
        found.append(Assumption(name="layers on the GPU", value="all", why=why))
    if deployment.ctx_size is None:
        slots = f"{SLOTS} slots" if deployment.parallel is None else "its slots"
        why = f"all cells that memory has room for; without -c llama-server keeps one context of the model for {slots}"
        found.append(Assumption(name="ctx_size", value="as fits", why=why))
    return tuple(found)
