"""Advice in an engine's own flags; kvcalc's are vLLM's."""

from kvcalc.results.size import Advice
from kvcalc.specs.base import replace

FLAGS = {
    "sglang": {
        "--tensor-parallel-size": "--tp-size",
        "--max-model-len": "--context-length",
        "--max-num-seqs": "--max-running-requests",
        "--gpu-memory-utilization": "--mem-fraction-static",
        "--kv-cache-dtype fp8": "--kv-cache-dtype fp8_e4m3",
    },
    "trtllm": {
        "--tensor-parallel-size": "--tp_size",
        "--max-model-len": "--max_seq_len",
        "--max-num-seqs": "--max_batch_size",
        "--gpu-memory-utilization": "--kv_cache_free_gpu_memory_fraction",
    },
    "llamacpp": {"--max-model-len": "-c", "--max-num-seqs": "-np", "--kv-cache-dtype q8_0": "-ctk q8_0 -ctv q8_0"},
}


def in_engine_words(advice: Advice, engine: str) -> Advice:
    """The same change, as that engine's command line takes it.

    >>> in_engine_words(Advice(change="--max-model-len 4096", effect="fits"), "sglang").change
    '--context-length 4096'
    """
    change = advice.change
    for ours, theirs in FLAGS.get(engine, {}).items():
        if change == ours or change.startswith(ours + " "):
            change = theirs + change[len(ours) :]
    return replace(advice, change=change)
