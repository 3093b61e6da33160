"""What engines load beyond the checkpoint's tensors: replicas, padding, draft layers to speculate, a rotary table.

Source: `counting/layout.py` for ranks; get_spec_layer_idx_from_weight_name in vllm/model_executor/models/deepseek_v2.py
for draft layers; the table was measured
"""

from kvcalc.counting.layout import rank_weights
from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.operators.experts import USUAL, ExpertKernels
from kvcalc.engines.pages.dtypes import engine_dtype
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec


def loaded_on_ranks(model: ModelSpec, deployment: Deployment, kernels: tuple[ExpertKernels, ...] = USUAL) -> int:
    """Bytes on the fullest rank, as engines on PyTorch load them.

    Raises KvcalcError where the model does not divide by the layout.

    Unit: bytes per GPU
    """
    check_layout(model, deployment.layout)
    drafts, dtype = deployment.num_speculative_tokens > 0, engine_dtype(model, deployment)
    held = rank_weights(model, deployment.layout, drafts=drafts, dtype=dtype, kernels=kernels)
    return held.fullest + rotary_bytes(model)


def rotary_bytes(model: ModelSpec) -> int:
    """Bytes per GPU of the rotary cosine and sine table, whole on every rank and not cut by max_model_len.

    Formula: max_context * rope_dim * 2
    Unit: bytes
    Source: measured: Llama-4-Scout (10,485,760 positions) loads 53.12 GiB where its tensors are 50.40
    """
    return (model.max_context or 0) * model.rope_dim * 2
