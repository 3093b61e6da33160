"""The lessons' decode step: every parameter is read, and each works once for every sequence.

This is `--engine ideal`. Parallel sizes divide the work plainly; pipeline stages work on B / pp sequences each, so a
token's time covers all of them.

Unit: bytes; FLOPs
Source: `formulas/step.py`: decode_step_bytes, decode_step_flops and the attention of each kind, each with its paper
"""

from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, single
from kvcalc.counting.operators.attention import LESSON_STATE_FLOPS
from kvcalc.counting.params import total_parameters
from kvcalc.counting.weights import mtp_weight_bytes, weight_bytes
from kvcalc.counting.work import Step
from kvcalc.formulas.step import mla_attention_flops_per_sequence
from kvcalc.specs.model import Attention, CompressedAttention, CrossAttention, LatentAttention, Mixer, ModelSpec
from kvcalc.timing.replica import Replica


class LessonTerms(NamedTuple):
    """Bytes and FLOPs of the decoding sequences, on one GPU."""

    weight_bytes: Quantity
    cache_bytes: Quantity
    flops: Quantity
    attention_flops: Quantity


def lesson_terms(replica: Replica, step: Step) -> LessonTerms:
    """The step of `step.decode` sequences, which may be an array, of `step.context` cached tokens, which may not."""
    model, tp = replica.model, replica.layout.tensor_parallel_size
    context = single(step.context)
    sequences = step.decode / replica.layout.pipeline_parallel_size
    attention = sequences * attention_flops(model, context) / tp
    return LessonTerms(
        weight_bytes=(weight_bytes(model) - mtp_weight_bytes(model)) / tp,
        cache_bytes=sequences * replica.cache.read(context),
        flops=sequences * 2 * total_parameters(model) / tp + attention,
        attention_flops=attention,
    )


def attention_flops(model: ModelSpec, context: float) -> float:
    """FLOPs of one decoded token's attention over its cache, all layers."""
    return sum(group.count * _mixer_flops(mixer, context) for group in model.groups for mixer in group.mixers)


def _mixer_flops(mixer: Mixer, context: float) -> float:
    if isinstance(mixer, Attention):
        seen = context if mixer.window is None else min(context, mixer.window)
        return 2 * mixer.query_heads * (mixer.head_dim + mixer.v_head_dim) * seen
    if isinstance(mixer, LatentAttention):
        seen = context if mixer.indexer is None else min(context, mixer.indexer.top_k)
        return mla_attention_flops_per_sequence(1, mixer.query_heads, mixer.kv_lora_rank, mixer.rope_head_dim, seen)
    if isinstance(mixer, CompressedAttention):
        history = context / mixer.ratio if mixer.ratio else 0
        if mixer.indexer:
            history = min(history, mixer.indexer.top_k)
        return 4 * mixer.query_heads * mixer.head_dim * (min(context, mixer.window) + history)
    if isinstance(mixer, CrossAttention):
        return 4 * mixer.query_heads * mixer.head_dim * mixer.source_tokens
    return LESSON_STATE_FLOPS * mixer.state_elements
