"""`ideal` is the lessons: weights and cache, nothing else."""

from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec

TITLE = "ideal"
TIMED = False
ROOM_FOR_LONGEST = False
STARTS_BEYOND = True
LOWERS_LENGTH = False
NEVER_EVICTS = False
KEEPS_IN_FLIGHT = False
SHARES_SEQUENCES = True
RESERVES_STATES = False
OFFLOADS = False
TAKES_WHAT_IS_ASKED = False
ASKS_FOR_SHARE = False
WEIGHTS_AS_IN_FILE = False
LEFT_BY_LOADING_BYTES = 0
MEASURED_VENDORS: tuple[str, ...] = ()
SMALLER_CACHES = ("fp8", "int8", "nvfp4")
ADVISED = ("quantization", "tensor_parallel_size")
FLAGS: dict[str, str] = {}
OWN: tuple[str, ...] = ()


def check_version(text: str) -> None:
    """Mathematics has no versions: any text will do."""


def request_table(deployment: Deployment, max_model_len: int | None) -> int:
    """None."""
    return 0


def settled(model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
    """As it was asked for."""
    return deployment


def typed(deployment: Deployment) -> Deployment:
    """As it is."""
    return deployment
