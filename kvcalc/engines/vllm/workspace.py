"""Buffers that sparse attention reserves for the longest context, before any request comes.

They come from one workspace that attention, the indexer and the experts' kernels share, so the largest counts.

Source: see `reserved_bytes`; the scratch of scaled kernels was measured: `memory.toml`, [scaled_dense]
"""

from kvcalc.engines.memory.budget import ByteRange
from kvcalc.engines.memory.data import memory_constants
from kvcalc.engines.memory.start import Start
from kvcalc.engines.vllm.settings import VllmSettings
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.versions import row_for, since


def workspace(start: Start, settings: VllmSettings) -> ByteRange:
    """What attention reserves, and the scratch of kernels that nothing else accounts for.

    Unit: bytes per GPU
    """
    found = ByteRange.exactly(reserved_bytes(start, settings))
    data, capability = memory_constants("vllm")["scaled_dense"], start.gpu.compute_capability or ""
    if capability.partition(".")[0] != data["capability"] or not since(settings.version, data["from"]):
        return found
    held = start.shape.scaled_dense_bytes
    low, value, high = (int(data[key] * held) for key in ("low", "value", "high"))
    return found.plus(ByteRange(low=low, value=value, high=high))


def reserved_bytes(start: Start, settings: VllmSettings) -> int:
    """Bytes per GPU; they grow with max_model_len L and with the tokens T of a batch.

    Formula: max(T * heads / tp * (rank + rope) * 2 + f * L * (rank + rope) * 2, 8 * f * L * 132)
    Unit: bytes
    Source: FlashMLASparseImpl.__init__ and get_prefill_workspace_size in
    vllm/v1/attention/backends/mla/flashmla_sparse.py, get_max_prefill_buffer_size in indexer.py (0.19.0 to 0.33.0). The
    second part of the first term is there where the cache is packed fp8 and FlashMLA reads it; f is
    sparse_mla_prefill_workspace_factor. Compressed attention: forward_mqa of vllm/models/deepseek_v4/nvidia/flashmla.py
    (0.22.1 to 0.33.0) gathers four prompts, each of a compressed history, its window and a batch.
    """
    shape, length = start.shape, start.max_model_len or 0
    data = memory_constants("vllm")["workspace"]
    if not since(settings.version, data["since"]):
        return 0
    if shape.compressed is not None:
        own = shape.compressed
        vectors = -(-length // own.ratio) + own.window + settings.batched_tokens
        gathered = int(data["prompts_gathered"]) * vectors * own.head_dim * 2
        return max(gathered, _indexer(length // own.ratio, settings) if own.indexed else 0)
    latents = shape.latents
    if latents is None or not latents.indexed:
        return 0
    width = (latents.rank + latents.rope) * 2
    heads = -(-latents.query_heads // start.deployment.tensor_parallel_size)
    attention = settings.batched_tokens * heads * width
    if shape.packed_cache and _flashmla(start.gpu):
        attention += _factor(length, settings) * length * width
    return max(attention, _indexer(length, settings))


def index_logits_bytes(start: Start, settings: VllmSettings) -> int:
    """Scores of an indexer while it chooses: set aside in the profile run, given back after it.

    Unit: bytes per GPU
    """
    data = memory_constants("vllm")["workspace"]
    indexed = any(one is not None and one.indexed for one in (start.shape.latents, start.shape.compressed))
    return int(data["index_logits"]) if indexed and since(settings.version, data["since"]) else 0


def _indexer(length: int, settings: VllmSettings) -> int:
    data = memory_constants("vllm")["workspace"]
    return int(data["index_entries"]) * _factor(length, settings) * length * int(data["index_entry_bytes"])


def _factor(length: int, settings: VllmSettings) -> int:
    """Contexts of the longest length that are gathered at once."""
    row = row_for(memory_constants("vllm")["workspace"]["factor"], settings.version)
    return int(row["long"] if length > row["long_above"] else row["value"])


def _flashmla(gpu: GpuSpec) -> bool:
    """On Hopper; newer GPUs read a packed cache by FlashInfer, without a copy of it."""
    return (gpu.compute_capability or "").partition(".")[0] == "9"
