"""TensorRT-LLM: a fraction of what is left free after its own profile run.

    pool = (total - outside - weights - peak) * free_gpu_memory_fraction

The fraction applies to what is left, so it hits a tight card less than vLLM's.

Source: _cal_max_memory in NVIDIA/TensorRT-LLM, tensorrt_llm/_torch/pyexecutor/_util.py; the peak rests on the one
profile that `memory.toml` names
"""

from kvcalc.engines.memory.budget import Activation, ByteRange, MemoryBudget
from kvcalc.engines.memory.data import gib_range, memory_constants
from kvcalc.engines.memory.start import Start
from kvcalc.specs.base import Assumption
from kvcalc.units import GIB


def budget(start: Start) -> MemoryBudget:
    """The budget of one rank; `gpu_memory_utilization` stands for `free_gpu_memory_fraction`."""
    data, shape, gpu, deployment = memory_constants("trtllm"), start.shape, start.gpu, start.deployment
    weights = start.weights_bytes + start.lora.value
    fraction = deployment.gpu_memory_utilization or float(data["fraction"])
    tokens = deployment.max_num_batched_tokens or int(data["batched_tokens"])
    sequences = min(deployment.max_num_seqs or int(data["sequences"]), tokens)
    ranks = deployment.tensor_parallel_size * deployment.pipeline_parallel_size
    outside = gib_range(data["outside"])
    if ranks > 1:
        outside = outside.plus(ByteRange.exactly(int(data["per_more_gpus"] * GIB)))
    # One forward pass of the largest batch: widths as vLLM's rule has them, logits in float32.
    tp = deployment.tensor_parallel_size
    per_token = 3 * max(shape.dense_width, shape.shared_width, shape.top_k * shape.expert_width) / tp
    forward = int(tokens * shape.element_bytes * (per_token + 3.25 * shape.hidden))
    logits = sequences * shape.padded_vocab * 4
    peak = ByteRange(low=forward // 2, value=max(forward, logits), high=2 * forward + 2 * logits)
    free = gpu.usable_memory_bytes - weights
    pool = ByteRange(
        low=int((free - outside.high - peak.high) * fraction),
        value=int((free - outside.value - peak.value) * fraction),
        high=int((free - outside.low - peak.low) * fraction),
    )
    kept = [int((free - a - b) * (1 - fraction)) for a, b in _extremes(outside, peak)]
    return MemoryBudget(
        engine="trtllm",
        engine_version=deployment.engine_version,
        total=gpu.usable_memory_bytes,
        requested=gpu.usable_memory_bytes,
        weights=weights,
        non_torch=outside,
        activation=Activation(sampler=logits, forward=forward, encoder=0, peak=peak),
        reserve=ByteRange(low=kept[0], value=kept[1], high=kept[2]),
        pool=pool,
        assumptions=(
            Assumption(name="free_gpu_memory_fraction", value=fraction, why="of what the profile run leaves free"),
            Assumption(name="max_num_batched_tokens", value=tokens, why="max_num_tokens of the profile run"),
            Assumption(name="max_num_seqs", value=sequences, why="max_batch_size"),
            Assumption(name="activation", value=peak.value, why=f"little evidence: {data['evidence']}"),
        ),
    )


def _extremes(outside: ByteRange, peak: ByteRange) -> list[tuple[int, int]]:
    return [(outside.high, peak.high), (outside.value, peak.value), (outside.low, peak.low)]
