"""What TensorRT-LLM loads.

Source: `engines/memory/loading.py`: that it loads as vLLM does is a judgement
"""

from kvcalc.engines.memory.loading import loaded_on_ranks
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


def check(model: ModelSpec, deployment: Deployment) -> None:
    """No rule of its own is known."""


def loaded_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None) -> int:
    """Bytes on the fullest GPU: replicated, padded and rounded.

    Raises KvcalcError where the model does not divide by the layout.

    Unit: bytes per GPU
    """
    return loaded_on_ranks(model, deployment)
