"""One step of a model as a list of operators: what each reads, computes and sends, on one GPU.

A step carries some sequences that decode and some tokens of prompts:

    decode   B sequences of C cached tokens, one row each (gamma + 1 rows each where drafted tokens are verified)
    prefill  S prompts, `tokens` rows each, after `start` tokens that are cached already
    mixed    both in one step, as chunked prefill has it

Every quantity may be a number or a NumPy array; at a fixed batch the bytes and FLOPs are piecewise linear in the cached
tokens. Counts are exact and know nothing of how fast a GPU is; `timing` prices them.

Pipeline stages work on different micro-batches: a token passes through all layers with B / pp sequences beside it. So
the list covers every stage, and its time is the latency of one token.

Source: each operator's stands in the file that counts it; Agrawal et al. 2024 (Sarathi-Serve), section 4, for steps
that carry both; elementwise work is a judgement: each norm and activation moves its inputs and outputs once
"""

from collections.abc import Iterable
from functools import lru_cache

from kvcalc.counting.arrays import Quantity, is_array
from kvcalc.counting.cache import element_bytes
from kvcalc.counting.layout_check import check_stages
from kvcalc.counting.operators.attention import mixer_operators
from kvcalc.counting.operators.links import layer_collectives, stage_sends
from kvcalc.counting.operators.matmul import expert_operators, head_operators, layer_gemms
from kvcalc.counting.work import Operator, Step
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import DenseMlp, LatentAttention, LayerGroup, ModelSpec, MoeMlp, Recurrent


def step_operators(
    model: ModelSpec, layout: Layout, step: Step, cache_dtype: str, state_dtype: str | None = None
) -> tuple[Operator, ...]:
    """The operators of any step, in the order of the model; equal layers are one operator with a count.

    Args:
        model: what is run.
        layout: how it is spread; the operators are one GPU's of each pipeline stage.
        step: who is in it, of one data-parallel replica.
        cache_dtype: element type of keys, values and latents.
        state_dtype: element type of recurrent state; None: what the config says.

    Raises:
        KvcalcError: more stages than layers.
    """
    if any(map(is_array, step)):
        return _operators(model, layout, step, cache_dtype, state_dtype)
    return _counted(model, layout, step, cache_dtype, state_dtype)


@lru_cache(maxsize=4096, typed=True)
def _counted(
    model: ModelSpec, layout: Layout, step: Step, cache_dtype: str, state_dtype: str | None
) -> tuple[Operator, ...]:
    """Counts are the same on every GPU: a search over GPUs counts a step once."""
    return _operators(model, layout, step, cache_dtype, state_dtype)


def _operators(
    model: ModelSpec, layout: Layout, step: Step, cache_dtype: str, state_dtype: str | None
) -> tuple[Operator, ...]:
    check_stages(model, layout)
    part = step.split(layout.pipeline_parallel_size)
    found: list[Operator] = list(_embedding(model, part))
    for group in model.groups:
        found.extend(_layer(group, model, layout, part, cache_dtype, state_dtype))
    found.extend(stage_sends(model, layout, part))
    found.extend(head_operators(model, layout, part))
    return tuple(operator for operator in found if operator.happens)


def _layer(
    group: LayerGroup, model: ModelSpec, layout: Layout, step: Step, cache_dtype: str, state_dtype: str | None
) -> Iterable[Operator]:
    yield from layer_gemms(group, model, layout, step)
    yield from mixer_operators(group, model, layout, step, cache_dtype, state_dtype)
    if isinstance(group.mlp, MoeMlp):
        yield from expert_operators(group.mlp, group, model, layout, step)
    yield _elementwise(group, model, layout, step)
    yield from layer_collectives(group, model, layout, step)


def _embedding(model: ModelSpec, step: Step) -> Iterable[Operator]:
    """A step reads one row of the table for each token, not the table."""
    row = model.hidden * element_bytes(model.dtype)
    yield Operator("embedding", "embedding", 1, activation_bytes=2 * step.rows * row, compute=model.dtype)


def _elementwise(group: LayerGroup, model: ModelSpec, layout: Layout, step: Step) -> Operator:
    """Norms read and write the residual stream, rotary the queries, the activation reads two widths and writes one."""
    tp = layout.tensor_parallel_size
    elements: Quantity = 4 * model.hidden
    for mixer in group.mixers:
        if isinstance(mixer, Recurrent):
            elements += 2 * mixer.conv_channels / tp
        elif isinstance(mixer, LatentAttention):
            elements += mixer.query_heads * mixer.v_head_dim / tp
        else:
            elements += 2 * mixer.query_heads * mixer.head_dim / tp
    if isinstance(group.mlp, DenseMlp):
        elements += (3 if group.mlp.gated else 2) * group.mlp.width / tp
    elif isinstance(group.mlp, MoeMlp):
        elements += 3 * group.mlp.shared_width / tp
    size = element_bytes(model.dtype)
    return Operator(
        "norms and activations",
        "elementwise",
        group.count,
        activation_bytes=step.rows * elements * size,
        compute=model.dtype,
        rows=step.rows,
    )
