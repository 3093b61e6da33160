"""A model spread over GPUs: what each rank of a pipeline stage holds.

Tensor parallelism divides matrices by heads, widths and vocabulary; what it cannot divide is whole on every rank:
norms, routers, latents' down-projections, indexers, and keys and values beyond the number of their heads. Expert
parallelism deals whole experts to the ranks of all replicas; pipeline parallelism deals layers to stages.

Source: `counting/split.py` for matrices; determine_expert_map in vllm/model_executor/layers/fused_moe/layer.py for
experts; VocabParallelEmbedding and get_pp_indices for the rest
"""

from functools import lru_cache
from typing import NamedTuple

from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.operators.experts import USUAL, ExpertKernels, kept_bytes, padded_shape
from kvcalc.counting.rounding import ceil_div, round_up
from kvcalc.counting.split import cut
from kvcalc.counting.weights import matrix_bytes
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import PLAIN, WeightFormat
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp, Tensor


class RankWeights(NamedTuple):
    """Weight bytes of one rank, by pipeline stage."""

    stages: tuple[int, ...]

    @property
    def fullest(self) -> int:
        return max(self.stages)


def pipeline_stages(model: ModelSpec, stages: int) -> list[frozenset[int]]:
    """The layers of each stage: as even as can be, what is left over going to the stages before the last.

    Unit: layers, by their index
    Source: get_pp_indices in vllm/distributed/utils.py
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


@lru_cache(maxsize=256)
def rank_weights(
    model: ModelSpec,
    layout: Layout,
    *,
    drafts: bool = False,
    dtype: str | None = None,
    kernels: tuple[ExpertKernels, ...] = USUAL,
) -> RankWeights:
    """Bytes of every tensor on one rank, for each pipeline stage.

    Args:
        model: its tensors say how they divide.
        layout: refused where the model does not divide by it.
        drafts: count the multi-token-prediction layers, which are loaded only to speculate.
        dtype: what tensors in the model's own type are loaded as; None: as stored.
        kernels: how experts are kept, by weight format.

    Raises KvcalcError where heads, widths or the vocabulary do not divide.

    The embedding is on the first stage, the head on the last, a tied embedding on both. Towers are loaded although
    text never meets them.
    """
    check_layout(model, layout)
    stages = [
        sum(_layers_bytes(group, model, layout, dtype, kernels, stage) for group in model.groups)
        for stage in pipeline_stages(model, layout.pipeline_parallel_size)
    ]
    outside = [(tensor, _local_bytes(tensor, None, model, layout, dtype)) for tensor in model.tensors]
    stages[0] += sum(size for tensor, size in outside if tensor.category in ("embedding", "position"))
    stages[-1] += sum(size for tensor, size in outside if tensor.category not in ("embedding", "position"))
    if model.tied_embeddings and len(stages) > 1:
        stages[-1] += sum(size for tensor, size in outside if tensor.category == "embedding")
    stages[0] += sum(_local_bytes(t, None, model, layout, dtype) for tower in model.towers for t in tower.tensors)
    if drafts:
        stages[-1] += sum(_layers_bytes(group, model, layout, dtype, kernels) for group in model.mtp)
    return RankWeights(stages=tuple(stages))


def layer_bytes(model: ModelSpec, layout: Layout, layer: int) -> int:
    """Bytes of one layer's tensors on one rank.

    Unit: bytes
    """
    one = frozenset({layer})
    return sum(_layers_bytes(group, model, layout, None, USUAL, one) for group in model.groups)


def _layers_bytes(
    group: LayerGroup,
    model: ModelSpec,
    layout: Layout,
    dtype: str | None,
    kernels: tuple[ExpertKernels, ...],
    stage: frozenset[int] | None = None,
) -> int:
    count = group.count if stage is None else len(stage.intersection(group.layers))
    if not count:
        return 0
    chosen = _kernels_of(group, kernels)
    each = (
        _local_bytes(tensor, group, model, layout, dtype)
        if chosen is None or tensor.category != "experts"
        else _expert_bytes(tensor, group, layout, chosen)
        for tensor in group.tensors
    )
    return count * sum(each)


def _kernels_of(group: LayerGroup, kernels: tuple[ExpertKernels, ...]) -> ExpertKernels | None:
    """Biases follow the matrices that they are added to."""
    formats = {tensor.format.name for tensor in group.tensors if tensor.category == "experts"}
    return next((one for one in kernels if one.format in formats), None)


def _expert_bytes(tensor: Tensor, group: LayerGroup, layout: Layout, kernels: ExpertKernels) -> int:
    assert isinstance(group.mlp, MoeMlp)
    copies, shape = local_tensor(tensor, group, layout)
    matrix = len(tensor.shape) > 1
    if matrix and (tensor.format.name != kernels.format or tensor.split not in ("columns", "rows")):
        return copies * matrix_bytes(shape, tensor.format)
    gates = (tensor.shape[-2] if matrix else tensor.shape[-1]) // group.mlp.expert_width or 1
    share = padded_shape(shape, tensor.split, gates if tensor.split == "columns" else 1, kernels)
    return copies * kept_bytes(share, tensor.format, kernels)


def _local_bytes(tensor: Tensor, group: LayerGroup | None, model: ModelSpec, layout: Layout, dtype: str | None) -> int:
    copies, shape = local_tensor(tensor, group, layout)
    return copies * matrix_bytes(shape, _loaded_format(tensor.format, model, dtype))


def _loaded_format(form: WeightFormat, model: ModelSpec, dtype: str | None) -> WeightFormat:
    return PLAIN[dtype] if dtype in PLAIN and form.name == model.dtype and form.name in PLAIN else form


def local_tensor(tensor: Tensor, group: LayerGroup | None, layout: Layout) -> tuple[int, tuple[int, ...]]:
    """Copies and shape of one rank's part of a tensor.

    Unit: copies; elements of each side
    """
    mlp = group.mlp if group else None
    if tensor.category == "experts" and isinstance(mlp, MoeMlp):
        if layout.enable_expert_parallel:
            ranks = layout.tensor_parallel_size * layout.data_parallel_size
            spread = tensor.copies + layout.num_redundant_experts * (tensor.copies // mlp.experts)
            return ceil_div(spread, ranks), tensor.shape
        return tensor.copies, _divided(tensor, layout.expert_slices, 1)
    return tensor.copies, _divided(tensor, layout.tensor_parallel_size, group.kv_heads if group else 1)


def _divided(tensor: Tensor, tp: int, kv_heads: int) -> tuple[int, ...]:
    """The shape after tensor parallelism; a vector divides as its matrix's outputs do."""
    shape = list(tensor.shape)
    found = cut(tensor, tp, kv_heads)
    if found.side == "outputs":
        side = max(0, len(shape) - 2)
        shape[side] = ceil_div(round_up(shape[side], found.multiple), found.parts)
    elif found.side == "inputs" and len(shape) > 1:
        shape[-1] = ceil_div(shape[-1], found.parts)
    return tuple(shape)


def leaves_node(layout: Layout, gpus_per_node: int) -> str | None:
    """What of a layout crosses nodes, in words; None: nothing.

    Ranks are numbered with tensor parallelism innermost, then pipeline stages, then replicas, as vLLM does.

    Source: initialize_model_parallel in vllm/distributed/parallel_state.py: "the layout order is: ExternalDP x DP x PP
    x TP"

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
    if layout.shares_experts and tp * layout.data_parallel_size > gpus_per_node:
        return f"experts sliced over {tp * layout.data_parallel_size} GPUs leave the node of {gpus_per_node}"
    if tp * pp > gpus_per_node:
        return f"{pp} pipeline stages of {tp} GPUs leave the node of {gpus_per_node}"
    return None
