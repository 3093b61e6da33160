"""Shapes: a ModelSpec from the dimensions that a performance case states, without its model's name.

A case has `dims` (layers, widths, heads, experts) and the element type of its weights; nothing else may be used.
"""

from collections.abc import Mapping
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.formats import BF16, PLAIN, WeightFormat, integer
from kvcalc.specs.model import (
    Attention,
    DenseMlp,
    LatentAttention,
    LayerGroup,
    Mixer,
    Mlp,
    ModelSpec,
    MoeMlp,
    Tensor,
)

FORMATS: dict[str, WeightFormat] = PLAIN | {
    "f16": PLAIN["fp16"],
    "fp8": WeightFormat(name="fp8", compute="fp8", bits=8),
    "fp8_block": WeightFormat(name="fp8-block", compute="fp8", bits=8, scale="block", scale_bits=32, block=(128, 128)),
    "int8": WeightFormat(name="int8", compute="bf16", bits=8),  # weight-only, as gpt-fast has it
    "int4g32": integer(4, 32, zero_bits=16),
    "int4": integer(4, 128, zero_bits=4),
    "awq": integer(4, 128, zero_bits=4),
    "gptq": integer(4, 128, zero_bits=4),
    "nvfp4": WeightFormat(name="nvfp4", compute="nvfp4", bits=4, scale="group", scale_bits=8, group=16),
    "mxfp4": WeightFormat(name="mxfp4", compute="bf16", bits=4, scale="group", scale_bits=8, group=32),
}
EXPERTS_ONLY = ("mxfp4",)  # formats that leave everything but the experts in bf16
NOT_LATENT = ("nvfp4",)  # formats that leave latent attention in bf16


def shape(dims: Mapping[str, Any], weights_dtype: str, file_bytes: float | None = None) -> ModelSpec:
    """The model of a case. Layer widths are the case's; what it does not say follows from the usual decoder.

    `file_bytes` is the size of a file whose formats are mixed: every weight then has the mean number of bits.
    """
    weight = FORMATS.get(weights_dtype)
    if weight is None and file_bytes:
        weight = WeightFormat(name=weights_dtype, compute="fp16", bits=8 * file_bytes / dims["params"])
    if weight is None:
        raise KvcalcError(f"weights in {weights_dtype} without the size of their file", hint="state weights_file_bytes")
    dtype = "fp16" if weights_dtype in ("fp16", "f16") or file_bytes else "bf16"
    plain = weight if file_bytes else PLAIN[dtype]
    rest = plain if weights_dtype in EXPERTS_ONLY else weight
    attention = plain if weights_dtype in NOT_LATENT and "mla" in dims else rest
    hidden, layers, experts = dims["h"], dims["L"], dims.get("experts")
    windowed = dims.get("window_layers", layers) if dims.get("window") else 0
    dense = dims.get("dense_layers", 0) if experts else layers
    groups = []
    for first, last, window in ((0, windowed, dims.get("window")), (windowed, layers, None)):
        mixer, projections = _mixer(dims, window, attention)
        for low, high, is_dense in ((first, min(last, dense), True), (max(first, dense), last, False)):
            if low < high:
                mlp, matrices = _dense(dims, rest) if is_dense else _experts(dims, weight, rest, plain)
                tensors = (*projections, *matrices)
                groups.append(LayerGroup(layers=tuple(range(low, high)), mixers=(mixer,), mlp=mlp, tensors=tensors))
    table = Tensor(name="embedding", shape=(dims["vocab"], hidden), category="embedding", split="vocab", format=plain)
    head = replace(table, name="head", category="head", matmul=True)
    counted = sum(tensor.parameters * group.count for group in groups for tensor in group.tensors)
    # Whether the head has a table of its own shows in the stated parameters.
    stated = dims.get("params", counted + 2 * table.parameters)
    tied = abs(counted + table.parameters - stated) < abs(counted + 2 * table.parameters - stated)
    return ModelSpec(
        name="case",
        family="case",
        hidden=hidden,
        vocab=dims["vocab"],
        dtype=dtype,
        groups=tuple(groups),
        tied_embeddings=tied,
        tensors=(table,) if tied else (table, head),
        parallel_residual=bool(dims.get("parallel", False)),
    )


def _matrix(name: str, category: Any, split: Any, outputs: int, inputs: int, weight: WeightFormat) -> Tensor:
    return Tensor(name=name, shape=(outputs, inputs), category=category, split=split, matmul=True, format=weight)


def _mixer(dims: Mapping[str, Any], window: int | None, weight: WeightFormat) -> tuple[Mixer, tuple[Tensor, ...]]:
    hidden, heads = dims["h"], dims["heads"]
    if "mla" in dims:
        mla = dims["mla"]
        q_rank, rank, rope, nope, value = mla.get("q_lora"), mla["kv_lora"], mla["rope"], mla["nope"], mla["v"]
        latent = LatentAttention(
            query_heads=heads,
            kv_lora_rank=rank,
            rope_head_dim=rope,
            nope_head_dim=nope,
            v_head_dim=value,
            q_lora_rank=q_rank or None,
        )
        down = [_matrix("kv_a", "attention", "whole", rank + rope, hidden, weight)]
        if q_rank:
            down.append(_matrix("q_a", "attention", "whole", q_rank, hidden, weight))
        return latent, (
            *down,
            _matrix("q_b", "attention", "columns", heads * (nope + rope), q_rank or hidden, weight),
            _matrix("kv_b", "attention", "columns", heads * (nope + value), rank, BF16),
            _matrix("o", "attention", "rows", hidden, heads * value, weight),
        )
    size, kv_heads = dims.get("d_h") or hidden // heads, dims["n_kv"]
    attention = Attention(query_heads=heads, kv_heads=kv_heads, head_dim=size, v_head_dim=size, window=window)
    return attention, (
        _matrix("q", "attention", "columns", heads * size, hidden, weight),
        _matrix("k", "attention", "kv", kv_heads * size, hidden, weight),
        _matrix("v", "attention", "kv", kv_heads * size, hidden, weight),
        _matrix("o", "attention", "rows", hidden, heads * size, weight),
    )


def _dense(dims: Mapping[str, Any], weight: WeightFormat) -> tuple[Mlp, tuple[Tensor, ...]]:
    gated = dims.get("gated", True)
    mlp = DenseMlp(width=dims["inter"], gated=gated)
    return mlp, _matrices("mlp", dims["inter"], dims["h"], gated, weight)


def _matrices(category: Any, width: int, hidden: int, gated: bool, weight: WeightFormat) -> tuple[Tensor, ...]:
    up = _matrix(f"{category}.up", category, "columns", width, hidden, weight)
    down = _matrix(f"{category}.down", category, "rows", hidden, width, weight)
    return (*([replace(up, name=f"{category}.gate")] if gated else []), up, down)


def _experts(
    dims: Mapping[str, Any], weight: WeightFormat, rest: WeightFormat, plain: WeightFormat
) -> tuple[Mlp, tuple[Tensor, ...]]:
    width, shared = dims.get("moe_inter") or dims["inter"], dims.get("shared_inter", 0)
    mlp = MoeMlp(experts=dims["experts"], top_k=dims["topk"], expert_width=width, shared_width=shared)
    routed = _matrices("experts", width, dims["h"], True, weight)
    router = _matrix("router", "router", "whole", dims["experts"], dims["h"], plain)
    return mlp, (
        router,
        *(replace(tensor, copies=dims["experts"]) for tensor in routed),
        *(_matrices("shared_experts", shared, dims["h"], True, rest) if shared else ()),
    )
