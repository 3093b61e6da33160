"""What TensorRT-LLM is like, and its own flags."""

from typing import ClassVar

from kvcalc.engines.contract import Rules
from kvcalc.engines.memory.data import version_of
from kvcalc.specs.versions import since


class TensorRtLlm(Rules):
    TITLE = "TensorRT-LLM"
    NEVER_EVICTS = True
    RESERVES_STATES = True
    SPLITS_PROMPTS = False  # `enable_chunked_prefill` is off by default
    NOT_ON = ("AMD", "Apple", "AWS", "Google", "Intel")
    OLDEST_CUDA = "8.0"  # docs/source/reference/support-matrix.md of 0.18.2: Ampere, Ada Lovelace, Hopper
    FLAGS: ClassVar = {
        "--tensor-parallel-size": "--tp_size",
        "--max-model-len": "--max_seq_len",
        "--max-num-seqs": "--max_batch_size",
        "--gpu-memory-utilization": "--kv_cache_free_gpu_memory_fraction",
    }

    def plans_ahead(self, version: str | None) -> bool:
        """The overlap scheduler of the PyTorch backend, the default since 1.0."""
        return since(version_of("trtllm", version), "1.0")


RULES = TensorRtLlm()
