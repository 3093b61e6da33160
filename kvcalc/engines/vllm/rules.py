"""What vLLM is like. Its flags are kvcalc's."""

from kvcalc.engines import versions
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

TITLE = "vLLM"
TIMED = True
ROOM_FOR_LONGEST = True
STARTS_BEYOND = False
LOWERS_LENGTH = False
NEVER_EVICTS = False
KEEPS_IN_FLIGHT = True
SHARES_SEQUENCES = True
RESERVES_STATES = False
OFFLOADS = False
TAKES_WHAT_IS_ASKED = False
ASKS_FOR_SHARE = True
WEIGHTS_AS_IN_FILE = False
LEFT_BY_LOADING_BYTES = 0
MEASURED_VENDORS = ("NVIDIA", "AMD")
SMALLER_CACHES = ("fp8", "int8", "nvfp4")
ADVISED = (
    *("kv_cache_dtype", "max_num_seqs", "enforce_eager", "gpu_memory_utilization"),
    *("quantization", "tensor_parallel_size"),
)
FLAGS: dict[str, str] = {}
OWN: tuple[str, ...] = ("offline",)


def check_version(text: str) -> None:
    """Raise KvcalcError where this is no version."""
    versions.check_version(text)


def request_table(deployment: Deployment, max_model_len: int | None) -> int:
    """Block tables are small and inside what the profile run sees."""
    return 0


def settled(model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
    """As it was asked for."""
    return deployment


def typed(deployment: Deployment) -> Deployment:
    """As it is."""
    return deployment
