"""What TensorRT-LLM is like, and its own flags."""

from kvcalc.engines import versions
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

TITLE = "TensorRT-LLM"
TIMED = True
ROOM_FOR_LONGEST = False
STARTS_BEYOND = False
LOWERS_LENGTH = False
NEVER_EVICTS = True
KEEPS_IN_FLIGHT = False
SHARES_SEQUENCES = False
RESERVES_STATES = True
OFFLOADS = False
TAKES_WHAT_IS_ASKED = False
ASKS_FOR_SHARE = False
WEIGHTS_AS_IN_FILE = False
LEFT_BY_LOADING_BYTES = 0
MEASURED_VENDORS = ("NVIDIA", "AMD")
SMALLER_CACHES = ("fp8", "int8", "nvfp4")
ADVISED = ("kv_cache_dtype", "quantization", "tensor_parallel_size")
FLAGS = {
    "--tensor-parallel-size": "--tp_size",
    "--max-model-len": "--max_seq_len",
    "--max-num-seqs": "--max_batch_size",
    "--gpu-memory-utilization": "--kv_cache_free_gpu_memory_fraction",
}
OWN: tuple[str, ...] = ()


def check_version(text: str) -> None:
    """Raise KvcalcError where this is no version."""
    versions.check_version(text)


def request_table(deployment: Deployment, max_model_len: int | None) -> int:
    """None that grows with the length."""
    return 0


def settled(model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
    """As it was asked for."""
    return deployment


def typed(deployment: Deployment) -> Deployment:
    """As it is."""
    return deployment
