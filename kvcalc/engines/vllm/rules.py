"""What vLLM is like. Its flags are kvcalc's."""

from kvcalc.engines.contract import Rules


class Vllm(Rules):
    TITLE = "vLLM"
    ROOM_FOR_LONGEST = True
    KEEPS_IN_FLIGHT = True
    SHARES_SEQUENCES = True
    ASKS_FOR_SHARE = True
    ADVISED = (
        *("kv_cache_dtype", "max_num_seqs", "enforce_eager", "gpu_memory_utilization"),
        *("quantization", "tensor_parallel_size"),
    )
    OWN = ("offline",)


RULES = Vllm()
