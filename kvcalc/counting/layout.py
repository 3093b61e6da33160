"""A model spread over GPUs: what each rank of a pipeline stage holds.

Tensor parallelism divides matrices by heads, widths and vocabulary; what it cannot divide is whole on every rank:
norms, routers, latents' down-projections, indexers, and keys and values beyond the number of their heads. Expert
parallelism deals whole experts to the ranks of all replicas; pipeline parallelism deals layers to stages.
"""

from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.rounding import VOCAB_MULTIPLE, ceil_div, round_up
from kvcalc.counting.weights import matrix_bytes
from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import PLAIN, WeightFormat
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp, Tensor

# Kernels of these formats take an expert's width and hidden size in multiples (vllm/model_executor/layers/fused_moe/
# oracle/mxfp4.py: 128 and 256 for the kernels of Hopper and older; blocks of 128 for block-scaled fp8).
EXPERT_MULTIPLES = {"mxfp4": (128, 256), "fp8-block": (128, 1)}


class RankWeights(Frozen):
    """Weight bytes of one rank, by pipeline stage."""

    stages: tuple[int, ...]

    @property
    def fullest(self) -> int:
        return max(self.stages)


def pipeline_stages(model: ModelSpec, stages: int) -> list[frozenset[int]]:
    """The layers of each stage: as even as can be, what is left over going to the stages before the last.

    Source: vllm/distributed/utils.py, get_pp_indices
    """
    every = sorted(index for group in model.groups for index in group.layers)
    sizes = [len(every) // stages] * stages
    for back in range(2, len(every) % stages + 2):
        sizes[-back] += 1
    found, start = [], 0
    for size in sizes:
        found.append(frozenset(every[start : start + size]))
        start += size
    return found


def rank_weights(model: ModelSpec, layout: Layout, *, drafts: bool = False, dtype: str | None = None) -> RankWeights:
    """Bytes of every tensor on one rank, for each pipeline stage.

    Args:
        model: its tensors say how they divide.
        layout: refused where the model does not divide by it.
        drafts: count the multi-token-prediction layers, which are loaded only to speculate.
        dtype: what tensors in the model's own type are loaded as; None: as stored.

    Raises KvcalcError where heads, widths or the vocabulary do not divide.

    The embedding is on the first stage, the head on the last, a tied embedding on both. Towers are loaded although
    text never meets them.
    """
    check_layout(model, layout)
    stages = [
        sum(_layers_bytes(group, model, layout, dtype, stage) for group in model.groups)
        for stage in pipeline_stages(model, layout.pipeline_parallel_size)
    ]
    outside = [(tensor, _local_bytes(tensor, None, model, layout, dtype)) for tensor in model.tensors]
    stages[0] += sum(size for tensor, size in outside if tensor.category in ("embedding", "position"))
    stages[-1] += sum(size for tensor, size in outside if tensor.category not in ("embedding", "position"))
    if model.tied_embeddings and len(stages) > 1:
        stages[-1] += sum(size for tensor, size in outside if tensor.category == "embedding")
    stages[0] += sum(_local_bytes(t, None, model, layout, dtype) for tower in model.towers for t in tower.tensors)
    if drafts:
        stages[-1] += sum(_layers_bytes(group, model, layout, dtype) for group in model.mtp)
    return RankWeights(stages=tuple(stages))


def _layers_bytes(
    group: LayerGroup, model: ModelSpec, layout: Layout, dtype: str | None, stage: frozenset[int] | None = None
) -> int:
    count = group.count if stage is None else len(stage.intersection(group.layers))
    return count * sum(_local_bytes(tensor, group, model, layout, dtype) for tensor in group.tensors) if count else 0


def _local_bytes(tensor: Tensor, group: LayerGroup | None, model: ModelSpec, layout: Layout, dtype: str | None) -> int:
    copies, shape = local_tensor(tensor, group, layout)
    return copies * matrix_bytes(shape, _loaded_format(tensor.format, model, dtype))


def _loaded_format(form: WeightFormat, model: ModelSpec, dtype: str | None) -> WeightFormat:
    return PLAIN[dtype] if dtype in PLAIN and form.name == model.dtype and form.name in PLAIN else form


def local_tensor(tensor: Tensor, group: LayerGroup | None, layout: Layout) -> tuple[int, tuple[int, ...]]:
    """Copies and shape of one rank's part of a tensor."""
    mlp = group.mlp if group else None
    if tensor.category == "experts" and isinstance(mlp, MoeMlp):
        if layout.enable_expert_parallel:
            ranks = layout.tensor_parallel_size * layout.data_parallel_size
            spread = tensor.copies + layout.num_redundant_experts * (tensor.copies // mlp.experts)
            return ceil_div(spread, ranks), _rounded(tensor, tensor.shape, mlp.expert_width)
        return tensor.copies, _rounded(tensor, _divided(tensor, layout.tensor_parallel_size, 1), mlp.expert_width)
    return tensor.copies, _divided(tensor, layout.tensor_parallel_size, group.kv_heads if group else 1)


def _divided(tensor: Tensor, tp: int, kv_heads: int) -> tuple[int, ...]:
    """The shape after tensor parallelism; a vector divides as its matrix's outputs do."""
    shape = list(tensor.shape)
    output = max(0, len(shape) - 2)
    if tensor.split == "vocab":
        shape[output] = round_up(shape[output], VOCAB_MULTIPLE) // tp
    elif tensor.split == "columns":
        shape[output] = ceil_div(shape[output], tp)
    elif tensor.split == "kv":
        shape[output] = ceil_div(shape[output], min(tp, kv_heads))
    elif tensor.split == "rows" and len(shape) > 1:
        shape[-1] = ceil_div(shape[-1], tp)
    return tuple(shape)


def _rounded(tensor: Tensor, shape: tuple[int, ...], expert_width: int) -> tuple[int, ...]:
    """An expert's share, as wide as its kernel wants it: gate and up have the width as outputs, down as inputs."""
    width_multiple, hidden_multiple = EXPERT_MULTIPLES.get(tensor.format.name, (1, 1))
    if len(shape) < 2 or tensor.split not in ("columns", "rows"):
        return shape
    *copies, outputs, inputs = shape
    if tensor.split == "columns":
        parts = tensor.shape[-2] // expert_width or 1  # 2: gate and up in one
        return (*copies, parts * round_up(outputs // parts, width_multiple), round_up(inputs, hidden_multiple))
    return (*copies, round_up(outputs, hidden_multiple), round_up(inputs, width_multiple))


def leaves_node(layout: Layout, gpus_per_node: int) -> str | None:
    """What of a layout crosses nodes, in words; None: nothing.

    Ranks are numbered with tensor parallelism innermost, then pipeline stages, then replicas, as vLLM does.

    >>> leaves_node(Layout(tensor_parallel_size=16), 8)
    'tensor parallelism of 16 leaves the node of 8 GPUs'
    >>> leaves_node(Layout(tensor_parallel_size=8), 8) is None
    True
    """
    tp, pp = layout.tensor_parallel_size, layout.pipeline_parallel_size
    if tp > gpus_per_node or gpus_per_node % tp:
        return f"tensor parallelism of {tp} leaves the node of {gpus_per_node} GPUs"
    if layout.enable_expert_parallel and tp * layout.data_parallel_size > gpus_per_node:
        return f"expert parallelism over {tp * layout.data_parallel_size} GPUs leaves the node of {gpus_per_node}"
    if tp * pp > gpus_per_node:
        return f"{pp} pipeline stages of {tp} GPUs leave the node of {gpus_per_node}"
    return None
