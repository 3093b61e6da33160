"""What SGLang is like, and its own flags."""

from kvcalc.engines import versions
from kvcalc.engines.memory.data import constants
from kvcalc.engines.sglang.settled import with_attention_replicas, with_sparse_cache, without_attention_replicas
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB

TITLE = "SGLang"
TIMED = True
ROOM_FOR_LONGEST = False
STARTS_BEYOND = False
LOWERS_LENGTH = False
NEVER_EVICTS = False
KEEPS_IN_FLIGHT = False
SHARES_SEQUENCES = False
RESERVES_STATES = False
OFFLOADS = False
TAKES_WHAT_IS_ASKED = False
ASKS_FOR_SHARE = False
WEIGHTS_AS_IN_FILE = False
LEFT_BY_LOADING_BYTES = GIB  # Qwen3.5-27B, bf16: 51.86 GiB for tensors of 50.99
MEASURED_VENDORS = ("NVIDIA", "AMD")
SMALLER_CACHES = ("fp8", "int8", "nvfp4")
ADVISED = ("kv_cache_dtype", "quantization", "tensor_parallel_size")
FLAGS = {
    "--tensor-parallel-size": "--tp-size",
    "--max-model-len": "--context-length",
    "--max-num-seqs": "--max-running-requests",
    "--gpu-memory-utilization": "--mem-fraction-static",
    "--kv-cache-dtype fp8": "--kv-cache-dtype fp8_e4m3",
}
OWN: tuple[str, ...] = ("max_mamba_cache_size", "enable_dp_attention")


def check_version(text: str) -> None:
    """Raise KvcalcError where this is no version."""
    versions.check_version(text)


def request_table(deployment: Deployment, max_model_len: int | None) -> int:
    """Bytes of req_to_token: a row of 32-bit slots for every request that may run.

    Llama-4-Scout at its full 10,485,760 positions: 2,049 rows, 80.04 GiB.

    Formula: 4 * (max_running_requests + 1) * max_model_len
    Unit: bytes per GPU
    Source: ReqToTokenPool in sglang/srt/mem_cache/memory_pool.py
    """
    rows = (deployment.max_num_seqs or int(constants("sglang")["running_requests"])) + 1
    return 4 * rows * (max_model_len or 0)


def settled(model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
    """Replicas of attention, and the cache's type of sparse latents."""
    return with_sparse_cache(model, gpu, with_attention_replicas(deployment))


def typed(deployment: Deployment) -> Deployment:
    """All GPUs of the replicas of attention, and what they do together."""
    return without_attention_replicas(deployment)
