"""The lessons' decode step: every parameter is read, and each works once for every sequence.

This is `--engine ideal`. Parallel sizes divide the work plainly; pipeline stages work on B / pp sequences each, so a
token's time covers all of them.
"""

from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import total_parameters
from kvcalc.counting.weights import mtp_weight_bytes, weight_bytes
from kvcalc.formulas import step
from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import Attention, CompressedAttention, CrossAttention, LatentAttention, Mixer, ModelSpec


class LessonStep(Frozen):
    """The terms of one decode step on one GPU."""

    weight_bytes: float
    parameters: float
    batch: float  # sequences in one pipeline stage
    cache_bytes_per_sequence: float
    attention_flops_per_sequence: float

    @property
    def flops(self) -> float:
        return step.decode_step_flops(self.parameters, self.batch, self.attention_flops_per_sequence)


def lesson_step(model: ModelSpec, layout: Layout, batch: int, context: int, cache_dtype: str) -> LessonStep:
    """The step of `batch` sequences of `context` cached tokens."""
    tp = layout.tensor_parallel_size
    profile = cache_profile(model, cache_dtype, layout=layout)
    return LessonStep(
        weight_bytes=(weight_bytes(model) - mtp_weight_bytes(model)) / tp,
        parameters=total_parameters(model) / tp,
        batch=batch / layout.pipeline_parallel_size,
        cache_bytes_per_sequence=profile.read(context),
        attention_flops_per_sequence=attention_flops(model, context) / tp,
    )


def attention_flops(model: ModelSpec, context: int) -> float:
    """FLOPs of one decoded token's attention over its cache, all layers."""
    return sum(group.count * _mixer_flops(mixer, context) for group in model.groups for mixer in group.mixers)


def _mixer_flops(mixer: Mixer, context: int) -> float:
    if isinstance(mixer, Attention):
        seen = context if mixer.window is None else min(context, mixer.window)
        return 2 * mixer.query_heads * (mixer.head_dim + mixer.v_head_dim) * seen
    if isinstance(mixer, LatentAttention):
        seen = context if mixer.indexer is None else min(context, mixer.indexer.top_k)
        return step.mla_attention_flops_per_sequence(
            1, mixer.query_heads, mixer.kv_lora_rank, mixer.rope_head_dim, seen
        )
    if isinstance(mixer, CompressedAttention):
        history = context / mixer.ratio if mixer.ratio else 0
        if mixer.indexer:
            history = min(history, mixer.indexer.top_k)
        return 4 * mixer.query_heads * mixer.head_dim * (min(context, mixer.window) + history)
    if isinstance(mixer, CrossAttention):
        return 4 * mixer.query_heads * mixer.head_dim * mixer.source_tokens
    return 4 * mixer.state_elements
