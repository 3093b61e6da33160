"""What GPUs of one replica tell each other in a step: all-reduces, all-to-alls, sends between stages.

Source: Shoeybi et al. 2019 (Megatron-LM), section 3, for the sums; DeepSeek-AI 2024 (DeepSeek-V3), section 3.3.3, for
dispatch in the experts' input type and combine in 16 bits, section 3.2.2 for prompts' rows that cross to each node once
(DeepEP's normal kernels; its low-latency ones, for decode, send to each rank); Narayanan et al. 2021, section 2.2, for
stages
"""

from collections.abc import Iterable

from kvcalc.counting.arrays import Quantity, is_array
from kvcalc.counting.cache import element_bytes
from kvcalc.counting.operators.matmul import activation_element_bytes
from kvcalc.counting.work import Operator, Step
from kvcalc.formulas.step import experts_touched
from kvcalc.specs.deployment import Layout
from kvcalc.specs.formats import BF16
from kvcalc.specs.model import LayerGroup, ModelSpec, MoeMlp


def layer_collectives(group: LayerGroup, model: ModelSpec, layout: Layout, step: Step) -> Iterable[Operator]:
    """Tensor parallelism sums the mixer's and the MLP's output over its ranks; expert parallelism over replicas
    sends every row to the ranks of its experts and back."""
    tp, dp = layout.tensor_parallel_size, layout.data_parallel_size
    row_bytes = model.hidden * element_bytes(model.dtype)
    blocks = len(group.mixers) > 0, group.mlp is not None
    sums = sum(blocks)
    if model.parallel_residual:
        sums = min(sums, 1)
    shared = isinstance(group.mlp, MoeMlp) and layout.shares_experts
    if shared:
        sums -= 1
    if tp > 1 and sums > 0:
        yield Operator(
            "all-reduce",
            "all_reduce",
            group.count * sums,
            link_bytes=step.rows * row_bytes,
            compute=model.dtype,
            rows=step.rows,
            ranks=tp,
        )
    if shared and isinstance(group.mlp, MoeMlp):
        ranks = tp * dp
        reached = experts_touched(experts=ranks, top_k=1, rows=group.mlp.top_k)
        if not layout.enable_expert_parallel:
            reached = ranks  # every rank holds a slice of every expert: all rows are gathered, and sums scattered
        once_a_node = group.mlp.top_k if layout.enable_expert_parallel else 0
        for rows, top_k in ((step.decode_rows, 0), (step.prefill_rows, once_a_node)):
            if is_array(rows) or rows > 0:
                yield from _all_to_alls(group, model, (ranks, top_k), rows / tp, reached)


def _all_to_alls(
    group: LayerGroup, model: ModelSpec, among: tuple[int, int], rows: Quantity, reached: float
) -> Iterable[Operator]:
    """A row goes once to each rank that holds some of its experts, in their input type; each sends one sum back.

    `among`: ranks, and experts of a row where it goes to each node once and on from there.
    """
    ranks, top_k = among
    experts = next((tensor.format for tensor in group.tensors if tensor.category == "experts"), BF16)
    back = element_bytes(model.dtype)
    for name, size in (("dispatch", activation_element_bytes(experts, model)), ("combine", back)):
        yield Operator(
            name,
            "all_to_all",
            group.count,
            link_bytes=rows * reached * model.hidden * size,
            compute=model.dtype,
            rows=rows,
            ranks=ranks,
            top_k=top_k,
        )


def stage_sends(model: ModelSpec, layout: Layout, step: Step) -> Iterable[Operator]:
    """Pipeline stages hand the residual stream on."""
    stages = layout.pipeline_parallel_size
    if stages > 1:
        moved = step.rows * model.hidden * element_bytes(model.dtype)
        yield Operator(
            "send to the next stage", "send", stages - 1, link_bytes=moved, compute=model.dtype, rows=step.rows, ranks=2
        )
