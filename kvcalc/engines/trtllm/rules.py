"""What TensorRT-LLM is like, and its own flags."""

from typing import ClassVar

from kvcalc.engines.contract import Rules


class TensorRtLlm(Rules):
    TITLE = "TensorRT-LLM"
    NEVER_EVICTS = True
    RESERVES_STATES = True
    FLAGS: ClassVar = {
        "--tensor-parallel-size": "--tp_size",
        "--max-model-len": "--max_seq_len",
        "--max-num-seqs": "--max_batch_size",
        "--gpu-memory-utilization": "--kv_cache_free_gpu_memory_fraction",
    }


RULES = TensorRtLlm()
