"""Weights that are scaled in square blocks divide over ranks only in whole blocks."""

from collections.abc import Iterator
from typing import NamedTuple

from kvcalc.counting.layout import local_tensor
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp, Tensor

DIVIDED = {"columns": 0, "rows": 1, "kv": 0}  # the side of (outputs, inputs) that tensor parallelism divides
CHECKED = ("attention", "mlp", "experts", "shared_experts")
SMALLEST_BLOCK = 32  # elements (refine_fp8_moe_block_shape)


class Divides(NamedTuple):
    """How an engine cuts blocks of weights."""

    title: str  # as it is spelled
    refines_experts: bool = False  # a scale for each smaller block of an expert, where 32 and more divide what is left
    experts_hint: str = ""


def check_weight_blocks(model: ModelSpec, deployment: Deployment, engine: Divides) -> None:
    """Raise KvcalcError where a rank's share is no whole number of blocks, as vLLM and SGLang do.

    Source: validate_fp8_block_shape, validate_fp8_block_shape_moe and refine_fp8_moe_block_shape in
    vllm/model_executor/layers/ (0.11.0 to 0.33.0); Fp8LinearMethod and Fp8MoEMethod of SGLang 0.5.23.
    """
    if deployment.tensor_parallel_size == 1:
        return
    for group in model.groups:
        for tensor, share, block in _shares(group, deployment, engine):
            if share % block:
                _refuse(tensor, share, block, deployment, engine)


def _shares(group: LayerGroup, deployment: Deployment, engine: Divides) -> Iterator[tuple[Tensor, int, int]]:
    for tensor in group.tensors:
        side, block = DIVIDED.get(tensor.split), tensor.format.block
        if side is None or block is None or tensor.category not in CHECKED or len(tensor.shape) < 2:
            continue
        if tensor.category == "experts" and deployment.enable_expert_parallel:
            continue
        share = local_tensor(tensor, group, deployment.layout)[1][side - 2]
        if isinstance(group.mlp, MoeMlp) and tensor.category == "experts" and tensor.split == "columns":
            share //= tensor.shape[-2] // group.mlp.expert_width or 1  # gate and up in one matrix
        yield tensor, share, _finer(block[side], share, tensor, engine)


def _finer(block: int, share: int, tensor: Tensor, engine: Divides) -> int:
    if tensor.category != "experts" or not engine.refines_experts:
        return block
    while block > SMALLEST_BLOCK and share % block:
        block //= 2
    return block


def _refuse(tensor: Tensor, share: int, block: int, deployment: Deployment, engine: Divides) -> None:
    what = "an expert" if tensor.category == "experts" else tensor.module
    hint, over = "use a smaller --tensor-parallel-size", deployment.tensor_parallel_size
    if tensor.category == "experts":
        over = deployment.expert_slices
        hint = f"add --enable-expert-parallel, or {hint}{engine.experts_hint}"
    raise KvcalcError(
        f"{engine.title} cannot divide {what} over {over} GPUs: {share} on each is no "
        f"multiple of the {block} that share a scale in fp8",
        hint=hint,
    )
