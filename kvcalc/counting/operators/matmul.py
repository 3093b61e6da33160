"""Weight tensors as matrix multiplications: projections, MLP, router, experts and the head, on one GPU.

Source: Kaplan et al. 2020, section 2.1, for two FLOPs a weight and row; QKVParallelLinear and
MergedColumnParallelLinear in vllm/model_executor/layers/linear.py for what is fused; Shazeer et al. 2017, section 2,
for experts
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, is_array
from kvcalc.counting.cache import element_bytes
from kvcalc.counting.rounding import round_up
from kvcalc.counting.split import cut
from kvcalc.counting.work import ExpertLoad, Operator, Step
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import WeightFormat
from kvcalc.specs.model import (
    CrossAttention,
    LatentAttention,
    LayerGroup,
    ModelSpec,
    MoeMlp,
    Tensor,
)

# One multiplication in the operator list: what engines fuse has the same inputs, split and format.
TITLES = {
    ("attention", "columns"): "qkv projection", ("attention", "rows"): "output projection",
    ("mlp", "columns"): "gate and up", ("mlp", "rows"): "down",
    ("shared_experts", "columns"): "shared gate and up", ("shared_experts", "rows"): "shared down",
    ("router", "whole"): "router",
}  # fmt: skip
CROSS_MODULES = ("cross_attn", "crossattention", "encoder_attn", "EncDecAttention")


def bits_per_weight(weight: WeightFormat, inputs: int) -> float:
    """Bits that one element of a matrix costs with its scales and zero points.

    Formula: bits + (scale_bits + zero_bits) / weights that share them
    Unit: bits

    >>> scaled = WeightFormat(name="nvfp4", compute="nvfp4", bits=4, scale="group", scale_bits=8, group=16)
    >>> bits_per_weight(scaled, 64)
    4.5
    """
    extra = weight.scale_bits + weight.zero_bits
    if weight.scale == "group" and weight.group:
        return weight.bits + extra / weight.group
    if weight.scale == "block" and weight.block:
        return weight.bits + extra / (weight.block[0] * weight.block[1])
    if weight.scale == "channel":
        return weight.bits + extra / inputs
    return weight.bits


def activation_element_bytes(weight: WeightFormat, model: ModelSpec) -> float:
    """Bytes of one input element: eight- and four-bit arithmetic takes quantized activations.

    Unit: bytes
    """
    if weight.compute in ("fp8", "int8", "fp4", "nvfp4"):
        return element_bytes("nvfp4" if weight.compute == "fp4" else weight.compute)
    return element_bytes(model.dtype)


def local_shape(tensor: Tensor, layout: Layout, kv_heads: int = 1) -> tuple[float, float]:
    """(outputs, inputs) of this GPU's part of a matrix.

    Unit: elements
    """
    outputs, inputs = tensor.shape[0], tensor.shape[-1]
    found = cut(tensor, layout.tensor_parallel_size, kv_heads)
    if found.side == "outputs":
        return round_up(outputs, found.multiple) / found.parts, inputs
    return (outputs, inputs) if found.side is None else (outputs, inputs / found.parts)


def layer_gemms(group: LayerGroup, model: ModelSpec, layout: Layout, step: Step) -> Iterable[Operator]:
    """The matrix multiplications of one layer but the experts', fused as engines fuse them."""
    for first, matrix in _matrices(group, layout):
        yield gemm(matrix, group.count, _rows(first, group, step), model)


class Matrix(NamedTuple):
    """Tensors that are multiplied as one."""

    title: str
    shape: tuple[float, float]  # (outputs, inputs) on this GPU
    format: WeightFormat
    tensors: int = 1


@lru_cache(maxsize=1024)
def _matrices(group: LayerGroup, layout: Layout) -> tuple[tuple[Tensor, Matrix], ...]:
    """The first tensor of each and what is fused with it: the same in every step."""
    together: dict[tuple[object, ...], list[Tensor]] = {}
    for tensor in group.tensors:
        if tensor.matmul and tensor.category != "experts":
            together.setdefault(_fusion(tensor, group), []).append(tensor)
    found = []
    for tensors in together.values():
        outputs = sum(local_shape(tensor, layout, group.kv_heads)[0] * tensor.copies for tensor in tensors)
        inputs = local_shape(tensors[0], layout, group.kv_heads)[1]
        matrix = Matrix(_title(tensors), (outputs, inputs), tensors[0].format, len(tensors))
        found.append((tensors[0], matrix))
    return tuple(found)


def gemm(matrix: Matrix, count: int, rows: Quantity, model: ModelSpec) -> Operator:
    """A multiplication of `rows` rows with a matrix."""
    (outputs, inputs), weight = matrix.shape, matrix.format
    size = outputs * inputs * bits_per_weight(weight, int(inputs)) / 8
    moved = rows * (inputs * activation_element_bytes(weight, model) + outputs * element_bytes(model.dtype))
    used = is_array(rows) or rows > 0
    return Operator(
        matrix.title,
        "gemm",
        count,
        flops=2 * rows * outputs * inputs,
        weight_bytes=size * used,
        activation_bytes=moved,
        compute=weight.compute,
        format=weight.name,
        bits=weight.bits,
        rows=rows,
        tensors=matrix.tensors,
    )


def _fusion(tensor: Tensor, group: LayerGroup) -> tuple[object, ...]:
    """Tensors with equal keys are one multiplication."""
    if tensor.split == "rows" or _expands_latents(tensor, group):
        return (tensor.name,)
    split = "columns" if tensor.split == "kv" else tensor.split
    return (tensor.category, split, tensor.shape[-1], tensor.format.name, _is_cross_source(tensor, group))


def _title(tensors: list[Tensor]) -> str:
    first = tensors[0]
    split = "columns" if first.split == "kv" else first.split
    fallback = first.name.removesuffix(".weight")
    if first.category == "attention" and len(tensors) == 1 and split == "columns":
        return fallback
    return TITLES.get((first.category, split), fallback)


def _expands_latents(tensor: Tensor, group: LayerGroup) -> bool:
    """The matrix that makes keys and values out of latents (kv_b_proj), absorbed into the queries in decode."""
    return tensor.category == "attention" and any(
        isinstance(mixer, LatentAttention) and tensor.shape[-1] == mixer.kv_lora_rank and tensor.split == "columns"
        for mixer in group.mixers
    )


def _is_cross_source(tensor: Tensor, group: LayerGroup) -> bool:
    """Keys and values of cross-attention: computed once from the encoder's output, never in decode."""
    if tensor.category != "attention" or not any(isinstance(mixer, CrossAttention) for mixer in group.mixers):
        return False
    alone = len(group.mixers) == 1
    last = tensor.name.removesuffix(".weight").rsplit(".", 1)[-1]
    return last.startswith(("k", "v")) and (alone or any(module in tensor.name for module in CROSS_MODULES))


def _rows(tensor: Tensor, group: LayerGroup, step: Step) -> Quantity:
    """Rows that a tensor multiplies in this step."""
    if _is_cross_source(tensor, group):
        source = next(mixer.source_tokens for mixer in group.mixers if isinstance(mixer, CrossAttention))
        return step.prompts * source
    if _expands_latents(tensor, group) and not step.absorbed:
        return step.decode_rows + step.prompts * (step.start + step.tokens)
    return step.rows


def expert_operators(
    mlp: MoeMlp, group: LayerGroup, model: ModelSpec, layout: Layout, step: Step
) -> Iterable[Operator]:
    """The routed experts of one layer: those that at least one token chose are read, each row is computed k times."""
    tensors = [tensor for tensor in group.tensors if tensor.category == "experts" and tensor.matmul]
    if not tensors:
        return
    ranks = layout.tensor_parallel_size * layout.data_parallel_size if layout.enable_expert_parallel else 1
    parts = layout.expert_slices
    rows = step.rows * (layout.data_parallel_size if layout.shares_experts else 1)
    size = sum(_expert_elements(t, mlp) * bits_per_weight(t.format, t.shape[-1]) / 8 for t in tensors)
    elements = sum(_expert_elements(tensor, mlp) for tensor in tensors)
    load = ExpertLoad(mlp.experts, mlp.top_k, rows, size / parts, ranks, parts)
    chosen = rows * mlp.top_k / ranks
    moved = (2 * model.hidden + 3 * mlp.expert_width / parts) * element_bytes(model.dtype)
    weight = tensors[0].format
    yield Operator(
        "experts",
        "experts",
        group.count,
        flops=2 * chosen * elements / parts,
        weight_bytes=load.woken * load.expert_bytes,
        activation_bytes=chosen * moved,
        compute=weight.compute,
        format=weight.name,
        bits=weight.bits,
        rows=chosen,
        tensors=len(tensors),
        experts=load,
    )


def _expert_elements(tensor: Tensor, mlp: MoeMlp) -> float:
    """Elements of one expert in a tensor, whether experts are copies or stacked in one shape."""
    return tensor.parameters / mlp.experts


def head_operators(model: ModelSpec, layout: Layout, step: Step) -> Iterable[Operator]:
    """The multiplications outside the layers: the output head, whether its table is tied to the embedding or not."""
    outside = [tensor for tensor in model.tensors if tensor.matmul]
    for tensor in outside:
        name = "head" if tensor.category in ("head", "embedding") else tensor.name
        yield gemm(Matrix(name, local_shape(tensor, layout), tensor.format), 1, step.head_rows, model)
    if model.tied_embeddings and not any(tensor.category == "head" for tensor in outside):
        table = next((t for t in model.tensors if t.category == "embedding" and not t.matmul), None)
        if table is not None:
            yield gemm(Matrix("head", local_shape(table, layout), table.format), 1, step.head_rows, model)
