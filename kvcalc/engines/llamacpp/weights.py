"""What is offloaded to the GPU: the file's tensors but the input embedding.

Source: load_tensors in ggml-org/llama.cpp, src/llama-model.cpp: the input layer's buffers are the CPU's, the output's
the GPU's
"""

from kvcalc.counting.layout import rank_weights
from kvcalc.counting.placement import host_part, host_weight_bytes
from kvcalc.counting.weights import stored_bytes
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


def check(model: ModelSpec, deployment: Deployment) -> None:
    """Whatever divides by the layout divides."""


def loaded_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None) -> int:
    """Weights on the fullest GPU: as in the file, but the input embedding and what the flags leave stay with the CPU.

    Its rows are looked up there; where the output head is tied to it, the head is a copy on the GPU. Measured:
    gpt-oss-20b leaves 586.82 MiB behind, 201,088 rows of 2,880 in q8_0.

    Unit: bytes per GPU
    """
    layout = deployment.layout
    held = rank_weights(model, layout, drafts=deployment.draft is not None, kernels=()).fullest
    part = host_part(model, deployment)
    if part is not None:
        held = max(0, held - host_weight_bytes(model, part) // layout.gpus)
    if model.tied_embeddings:
        return held
    behind = sum(stored_bytes(tensor) for tensor in model.tensors if tensor.category == "embedding")
    return max(0, held - behind // layout.tensor_parallel_size)
