"""What vLLM loads: experts as their kernels want them.

Source: `engines/memory/loading.py`; vllm/model_executor/layers/fused_moe/oracle/ for kernels
"""

from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.operators.experts import USUAL, ExpertKernels
from kvcalc.engines.memory.data import memory_constants, version_of
from kvcalc.engines.memory.loading import loaded_on_ranks
from kvcalc.engines.memory.weight_blocks import Divides, check_weight_blocks
from kvcalc.engines.vllm.planning import planning_of
from kvcalc.specs.base import field_names
from kvcalc.specs.build import build
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import LatentAttention, ModelSpec
from kvcalc.specs.versions import row_for, since

EXPERTS_REFINED_SINCE = "0.29"  # a scale for each smaller block, where 32 and more divide what is left


def check(model: ModelSpec, deployment: Deployment) -> None:
    """Raise KvcalcError where weights in blocks do not divide by the layout."""
    version = version_of("vllm", deployment.engine_version)
    hint = f"; vLLM {EXPERTS_REFINED_SINCE} and later divide it"
    check_weight_blocks(model, deployment, Divides("vLLM", since(version, EXPERTS_REFINED_SINCE), hint))


def loaded_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None) -> int:
    """Bytes on the fullest GPU: replicated, padded and rounded, experts as the GPU's kernels want them.

    Raises KvcalcError where the model does not divide by the layout.

    Unit: bytes per GPU
    """
    check_layout(model, deployment.layout)
    check(model, deployment)
    return loaded_on_ranks(model, deployment, expert_kernels(deployment, gpu)) + absorbed_bytes(model, deployment)


def absorbed_bytes(model: ModelSpec, deployment: Deployment) -> int:
    """Up-projections of latents, held twice: as loaded, and turned for the queries and outputs that absorb them.

    Formula: layers * heads / tp * rank * (nope + v) * 2
    Unit: bytes on the fullest stage
    Source: process_weights_after_loading (W_UK_T, W_UV) in
    vllm/model_executor/layers/attention/mla_attention.py, 0.28.0; latents are absorbed since 0.7.1
    """
    if planning_of(deployment.engine_version).expanded_head is not None:
        return 0
    tp = deployment.tensor_parallel_size
    found = sum(
        group.count * -(-mixer.query_heads // tp) * mixer.kv_lora_rank * (mixer.nope_head_dim + mixer.v_head_dim) * 2
        for group in model.groups
        for mixer in group.mixers
        if isinstance(mixer, LatentAttention)
    )
    return -(-found // deployment.pipeline_parallel_size)


def expert_kernels(deployment: Deployment, gpu: GpuSpec | None) -> tuple[ExpertKernels, ...]:
    """How this engine keeps experts on this GPU, by weight format: vLLM chooses kernels by GPU and version."""
    if gpu is None:
        return USUAL
    data = memory_constants("vllm")
    version = version_of("vllm", deployment.engine_version)
    row = row_for(data["expert_kernels"], version, hardware=_hardware(gpu))
    chosen = build(ExpertKernels, {name: row[name] for name in row if name in field_names(ExpertKernels)})
    return (chosen, *(one for one in USUAL if one.format != chosen.format))


def _hardware(gpu: GpuSpec) -> str:
    """By compute capability: 9 is Hopper, 10 is Blackwell of data centres."""
    if gpu.vendor.upper() == "AMD":
        return "amd"
    major = (gpu.compute_capability or "").partition(".")[0]
    return {"9": "hopper", "10": "blackwell"}.get(major, "other")
