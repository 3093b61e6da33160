"""What an engine loads beyond the checkpoint's tensors: a rotary table, and experts as their kernels want them."""

from kvcalc.counting.operators.experts import USUAL, ExpertKernels
from kvcalc.engines.memory.data import constants, row_for
from kvcalc.engines.versions import parse_version
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


def loaded_weight_extra(model: ModelSpec) -> int:
    """Bytes per GPU of the rotary cosine and sine table, whole on every rank and not cut by max_model_len.

    Formula: max_context * rope_dim * 2
    Unit: bytes
    Source: measured: Llama-4-Scout (10,485,760 positions) loads 53.12 GiB where its tensors are 50.40
    """
    return (model.max_context or 0) * model.rope_dim * 2


def expert_kernels(deployment: Deployment, gpu: GpuSpec | None) -> tuple[ExpertKernels, ...]:
    """How this engine keeps experts on this GPU, by weight format: vLLM chooses kernels by GPU and version."""
    if deployment.engine != "vllm" or gpu is None:
        return USUAL
    data = constants("vllm")
    version = parse_version(deployment.engine_version or data["newest"])
    row = row_for(data["expert_kernels"], version, hardware=_hardware(gpu))
    chosen = ExpertKernels.model_validate({name: row[name] for name in row if name in ExpertKernels.model_fields})
    return (chosen, *(one for one in USUAL if one.format != chosen.format))


def _hardware(gpu: GpuSpec) -> str:
    """By compute capability: 9 is Hopper, 10 is Blackwell of data centres."""
    if gpu.vendor.upper() == "AMD":
        return "amd"
    major = (gpu.compute_capability or "").partition(".")[0]
    return {"9": "hopper", "10": "blackwell"}.get(major, "other")
