"""What SGLang loads.

Source: `engines/memory/loading.py` and `engines/memory/weight_blocks.py`
"""

from kvcalc.counting.layout_check import check_layout
from kvcalc.engines.memory.loading import loaded_on_ranks
from kvcalc.engines.memory.weight_blocks import Divides, check_weight_blocks
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


def check(model: ModelSpec, deployment: Deployment) -> None:
    """Raise KvcalcError where weights in blocks do not divide by the layout."""
    check_weight_blocks(model, deployment, Divides("SGLang"))


def loaded_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None) -> int:
    """Bytes on the fullest GPU: replicated, padded and rounded.

    Raises KvcalcError where the model does not divide by the layout.

    Unit: bytes per GPU
    """
    check_layout(model, deployment.layout)
    check(model, deployment)
    return loaded_on_ranks(model, deployment)
