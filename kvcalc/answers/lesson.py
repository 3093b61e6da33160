"""The lessons' decode step: every parameter is read, and each works once for every sequence.

This is `--engine ideal`. Parallel sizes divide the work plainly; pipeline stages work on B / pp sequences each, so a
token's time covers all of them.
"""

from collections.abc import Mapping
from typing import Any

from kvcalc.answers.explain import explain
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.params import total_parameters
from kvcalc.counting.weights import counted_weight_bytes, mtp_weight_bytes
from kvcalc.formulas import matmul, step
from kvcalc.reports.base import Figure
from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Layout
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import Attention, CompressedAttention, CrossAttention, LatentAttention, Mixer, ModelSpec


class LessonStep(Frozen):
    """The terms of one decode step on one GPU."""

    weight_bytes: float
    parameters: float
    batch: float  # sequences in one pipeline stage
    cache_bytes_per_sequence: float
    attention_flops_per_sequence: float
    bandwidth_bytes_per_s: float
    peak_flops: float

    @property
    def bytes(self) -> float:
        return step.decode_step_bytes(self.weight_bytes, self.batch, self.cache_bytes_per_sequence)

    @property
    def flops(self) -> float:
        return step.decode_step_flops(self.parameters, self.batch, self.attention_flops_per_sequence)

    @property
    def memory_time_s(self) -> float:
        return step.memory_time(self.bytes, self.bandwidth_bytes_per_s)

    @property
    def compute_time_s(self) -> float:
        return step.compute_time(self.flops, self.peak_flops)

    @property
    def bound_s(self) -> float:
        return step.roofline_time(self.memory_time_s, self.compute_time_s)


def lesson_step(
    model: ModelSpec, gpu: GpuSpec, layout: Layout, batch: int, context: int, cache_dtype: str, peak_flops: float
) -> LessonStep:
    """The step of `batch` sequences of `context` cached tokens."""
    tp = layout.tensor_parallel_size
    profile = cache_profile(model, cache_dtype, layout=layout)
    return LessonStep(
        weight_bytes=(counted_weight_bytes(model) - mtp_weight_bytes(model)) / tp,
        parameters=total_parameters(model) / tp,
        batch=batch / layout.pipeline_parallel_size,
        cache_bytes_per_sequence=profile.read(context),
        attention_flops_per_sequence=attention_flops(model, context) / tp,
        bandwidth_bytes_per_s=gpu.memory_bandwidth_bytes_per_s,
        peak_flops=peak_flops,
    )


def attention_flops(model: ModelSpec, context: int) -> float:
    """FLOPs of one decoded token's attention over its cache, all layers."""
    return sum(group.count * _mixer_flops(mixer, context) for group in model.groups for mixer in group.mixers)


def _mixer_flops(mixer: Mixer, context: int) -> float:
    if isinstance(mixer, Attention):
        seen = context if mixer.window is None else min(context, mixer.window)
        both = mixer.head_dim + mixer.v_head_dim
        return 2 * mixer.query_heads * both * seen
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


def working(terms: LessonStep, batch: int, replicas: int) -> tuple[Figure, ...]:
    """Every figure of the step with its formula and values."""
    moved = explain(
        step.decode_step_bytes,
        name="bytes of the step",
        weight_bytes=terms.weight_bytes,
        batch=terms.batch,
        cache_bytes_per_sequence=terms.cache_bytes_per_sequence,
    )
    flops = explain(
        step.decode_step_flops,
        name="FLOPs of the step",
        parameters=terms.parameters,
        batch=terms.batch,
        attention_flops_per_sequence=terms.attention_flops_per_sequence,
    )
    return (
        moved,
        flops,
        *roofline_working(terms.bytes, terms.flops, terms.bandwidth_bytes_per_s, terms.peak_flops, batch * replicas),
    )


def roofline_working(
    bytes_moved: float, flops: float, bandwidth: float, peak: float, sequences: float
) -> tuple[Figure, ...]:
    """From bytes and FLOPs to intensity, times, bound and throughput."""
    memory = explain(step.memory_time, name="memory time", bytes_moved=bytes_moved, bandwidth_bytes_per_s=bandwidth)
    compute = explain(step.compute_time, name="compute time", flops=flops, peak_flops=peak, compute_efficiency=1)
    times: Mapping[str, Any] = {"memory_time_s": memory.value, "compute_time_s": compute.value}
    bound = explain(step.roofline_time, name="bound", **times)
    assert bound.value is not None
    return (
        explain(step.intensity, name="intensity", flops=flops, bytes_moved=bytes_moved),
        explain(matmul.ridge_point, name="ridge point", peak_flops=peak, bandwidth_bytes_per_s=bandwidth),
        memory,
        compute,
        bound,
        explain(step.throughput, name="throughput at the bound", batch=sequences, step_time_s=bound.value),
    )
