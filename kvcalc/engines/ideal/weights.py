"""The file divided evenly over the ranks.

Source: `formulas/cache.py`, weight_bytes; an even share of it is the lessons' arithmetic
"""

from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.weights import mtp_weight_bytes, stored_bytes, weight_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


def check(model: ModelSpec, deployment: Deployment) -> None:
    """Whatever divides by the layout divides."""


def loaded_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None) -> int:
    """Bytes of one GPU; experts are dealt to the ranks of all replicas where they are parallel.

    Raises KvcalcError where the model does not divide by the layout.

    Unit: bytes per GPU
    """
    layout = deployment.layout
    check_layout(model, layout)
    ranks = layout.tensor_parallel_size * layout.pipeline_parallel_size
    drafts = deployment.draft is not None
    whole = weight_bytes(model) - (0 if drafts else mtp_weight_bytes(model))
    if not layout.enable_expert_parallel:
        return -(-whole // ranks)
    experts = sum(
        group.count * stored_bytes(tensor)
        for group in model.groups
        for tensor in group.tensors
        if tensor.category == "experts"
    )
    return -(-(whole - experts) // ranks) + -(-experts // (ranks * layout.data_parallel_size))
