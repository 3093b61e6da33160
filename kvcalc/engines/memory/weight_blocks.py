"""Weights that are scaled in square blocks divide over ranks only in whole blocks."""

from collections.abc import Iterator

from kvcalc.counting.layout import local_tensor
from kvcalc.engines.versions import parse_version
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp, Tensor

DIVIDED = {"columns": 0, "rows": 1, "kv": 0}  # the side of (outputs, inputs) that tensor parallelism divides
CHECKED = ("attention", "mlp", "experts", "shared_experts")
EXPERTS_REFINED_SINCE = (0, 29, 0)  # vLLM: a scale for each smaller block, where 32 and more divide what is left
SMALLEST_BLOCK = 32


def check_weight_blocks(model: ModelSpec, deployment: Deployment) -> None:
    """Raise KvcalcError where a rank's share is no whole number of blocks, as vLLM and SGLang do.

    Source: validate_fp8_block_shape, validate_fp8_block_shape_moe and refine_fp8_moe_block_shape in
    vllm/model_executor/layers/ (0.11.0 to 0.33.0); Fp8LinearMethod and Fp8MoEMethod of SGLang 0.5.23.
    """
    if deployment.engine not in ("vllm", "sglang") or deployment.tensor_parallel_size == 1:
        return
    for group in model.groups:
        for tensor, share, block in _shares(group, deployment):
            if share % block:
                _refuse(tensor, share, block, deployment)


def _shares(group: LayerGroup, deployment: Deployment) -> Iterator[tuple[Tensor, int, int]]:
    for tensor in group.tensors:
        side, block = DIVIDED.get(tensor.split), tensor.format.block
        if side is None or block is None or tensor.category not in CHECKED or len(tensor.shape) < 2:
            continue
        if tensor.category == "experts" and deployment.enable_expert_parallel:
            continue
        share = local_tensor(tensor, group, deployment.layout)[1][side - 2]
        if isinstance(group.mlp, MoeMlp) and tensor.category == "experts" and tensor.split == "columns":
            share //= tensor.shape[-2] // group.mlp.expert_width or 1  # gate and up in one matrix
        yield tensor, share, _finer(block[side], share, tensor, deployment)


def _finer(block: int, share: int, tensor: Tensor, deployment: Deployment) -> int:
    version = deployment.engine_version
    refines = deployment.engine == "vllm" and (version is None or parse_version(version) >= EXPERTS_REFINED_SINCE)
    if tensor.category != "experts" or not refines:
        return block
    while block > SMALLEST_BLOCK and share % block:
        block //= 2
    return block


def _refuse(tensor: Tensor, share: int, block: int, deployment: Deployment) -> None:
    what = "an expert" if tensor.category == "experts" else tensor.module
    engine = {"vllm": "vLLM", "sglang": "SGLang"}[deployment.engine]
    hint = "use a smaller --tensor-parallel-size"
    if tensor.category == "experts":
        hint = f"add --enable-expert-parallel, or {hint}"
        hint += "; vLLM 0.29 and later divide it" if deployment.engine == "vllm" else ""
    raise KvcalcError(
        f"{engine} cannot divide {what} over {deployment.tensor_parallel_size} GPUs: {share} on each is no multiple of "
        f"the {block} that share a scale in fp8",
        hint=hint,
    )
