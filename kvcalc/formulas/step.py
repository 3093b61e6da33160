"""One decode step: its bytes, FLOPs, intensity and times.

The weights are read once for the whole batch, so each of their bytes does work for every sequence; a cache is private,
so each of its bytes does a fixed amount of work whatever the batch. Everything below follows from that.
"""

from kvcalc.formulas.number import F, N


def attention_flops_per_sequence(layers: N, query_heads: N, head_dim: N, context: N) -> N:
    """FLOPs of one decoded token's attention over its cache: scores and weighted sum, 2 FLOPs per element each.

    Args:
        layers: Attention layers.
        query_heads: Query heads per layer.
        head_dim: Elements per head.
        context: Cached tokens.

    Formula: 4 * layers * query_heads * head_dim * context
    Unit: FLOP
    Source: Kaplan et al. 2020, table 1 (scores), and as much for the values

    >>> attention_flops_per_sequence(layers=32, query_heads=32, head_dim=128, context=2048)
    1073741824
    """
    return 4 * layers * query_heads * head_dim * context


def mla_attention_flops_per_sequence(layers: N, query_heads: N, kv_lora_rank: N, rope_head_dim: N, context: N) -> N:
    """FLOPs of one decoded token's latent attention in the absorbed form: every head reads the same latent.

    Args:
        layers: Layers with latent attention.
        query_heads: Query heads per layer.
        kv_lora_rank: Elements of the latent.
        rope_head_dim: Elements of the shared rotary key.
        context: Cached tokens.

    Formula: 2 * layers * query_heads * (2 * kv_lora_rank + rope_head_dim) * context
    Unit: FLOP
    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1 and appendix C

    >>> mla_attention_flops_per_sequence(61, query_heads=128, kv_lora_rank=512, rope_head_dim=64, context=1)
    16990208
    """
    return 2 * layers * query_heads * (2 * kv_lora_rank + rope_head_dim) * context


def decode_step_bytes(weight_bytes: N, batch: N, cache_bytes_per_sequence: N) -> N:
    """Bytes that one decode step must read: the weights once, and every sequence's own cache.

    Args:
        weight_bytes: Bytes of the weights that the step reads.
        batch: Sequences.
        cache_bytes_per_sequence: Cache that one sequence reads: context × bytes per token where nothing is windowed.

    Formula: weight_bytes + batch * cache_bytes_per_sequence
    Unit: bytes
    Source: Pope et al. 2023, section 3.3

    >>> decode_step_bytes(weight_bytes=16_060_000_000, batch=64, cache_bytes_per_sequence=2048 * 131072) / 1e9
    33.239869184
    """
    return weight_bytes + batch * cache_bytes_per_sequence


def decode_step_flops(parameters: N, batch: N, attention_flops_per_sequence: N) -> N:
    """FLOPs of one decode step: each weight multiplies and adds once per sequence, and attention.

    Args:
        parameters: Parameters that one token meets: all of a dense model, the active ones of a mixture of experts.
        batch: Sequences, one token each.
        attention_flops_per_sequence: Attention FLOPs of one token over its cache.

    Formula: batch * (2 * parameters + attention_flops_per_sequence)
    Unit: FLOP
    Source: Kaplan et al. 2020, section 2.1

    >>> decode_step_flops(parameters=8_030_000_000, batch=64, attention_flops_per_sequence=1073741824) / 1e12
    1.096559476736
    """
    return batch * (2 * parameters + attention_flops_per_sequence)


def intensity(flops: float, bytes_moved: float) -> float:
    """Arithmetic intensity: work per byte that crosses the memory bus.

    Args:
        flops: FLOPs of the work.
        bytes_moved: Bytes that it reads and writes.

    Formula: flops / bytes_moved
    Unit: FLOP/byte
    Source: Williams, Waterman and Patterson 2009 (roofline)

    >>> intensity(flops=33, bytes_moved=2)
    16.5
    """
    return flops / bytes_moved


def weight_intensity(batch: float, bytes_per_parameter: float) -> float:
    """Work per weight byte: it grows with the batch. In bf16 it is the batch.

    Args:
        batch: Sequences that share one read of the weights.
        bytes_per_parameter: Bytes of one weight.

    Formula: 2 * batch / bytes_per_parameter
    Unit: FLOP/byte
    Source: Pope et al. 2023, section 2.1

    >>> weight_intensity(batch=64, bytes_per_parameter=2), weight_intensity(batch=64, bytes_per_parameter=0.5)
    (64.0, 256.0)
    """
    return 2 * batch / bytes_per_parameter


def cache_intensity(query_heads: float, kv_heads: float, bytes_per_element: float) -> float:
    """Work per cache byte: the query heads that share a KV head, whatever the batch. In bf16 it is that number.

    Args:
        query_heads: Query heads per layer.
        kv_heads: Key/value heads per layer.
        bytes_per_element: Bytes of one cached element.

    Formula: 2 * query_heads / (kv_heads * bytes_per_element)
    Unit: FLOP/byte
    Source: Shazeer 2019 (multi-query attention), section 3.1; Ainslie et al. 2023 (GQA)

    >>> cache_intensity(query_heads=32, kv_heads=8, bytes_per_element=2)
    4.0
    """
    return 2 * query_heads / (kv_heads * bytes_per_element)


def share(part: float, whole: float) -> float:
    """One term's share of a sum: the weights' of a step's bytes, attention's of a prefill's FLOPs.

    Args:
        part: The term.
        whole: The sum, in the same unit.

    Formula: part / whole
    Unit: 1
    Source: arithmetic

    >>> share(part=16, whole=64)
    0.25
    """
    return part / whole


def decode_step_intensity(weight_share: float, weight_intensity: float, cache_intensity: float) -> float:
    """Intensity of a decode step as the byte-weighted mean of its two parts.

    Args:
        weight_share: Share of the step's bytes that are weights; the rest is cache.
        weight_intensity: FLOPs per weight byte.
        cache_intensity: FLOPs per cache byte.

    Formula: weight_share * weight_intensity + (1 - weight_share) * cache_intensity
    Unit: FLOP/byte
    Source: ML Systems lesson 12 (LLM inference serving), section 3, decode-step proposition

    >>> decode_step_intensity(weight_share=0.5, weight_intensity=64, cache_intensity=4)
    34.0
    """
    return weight_share * weight_intensity + (1 - weight_share) * cache_intensity


def memory_time(bytes_moved: F, bandwidth_bytes_per_s: float) -> F:
    """Least time to move the bytes.

    Args:
        bytes_moved: Bytes.
        bandwidth_bytes_per_s: Memory bandwidth, bytes/s.

    Formula: bytes_moved / bandwidth_bytes_per_s
    Unit: s
    Source: Williams, Waterman and Patterson 2009 (roofline)

    >>> memory_time(bytes_moved=16.75e9, bandwidth_bytes_per_s=3.35e12)
    0.005
    """
    return bytes_moved / bandwidth_bytes_per_s


def compute_time(flops: F, peak_flops: float, compute_efficiency: float = 1.0) -> F:
    """Least time to do the arithmetic.

    Args:
        flops: FLOPs of the work.
        peak_flops: Dense peak of the element type, FLOP/s.
        compute_efficiency: Share of the peak that is reached; 1 gives the bound.

    Formula: flops / (compute_efficiency * peak_flops)
    Unit: s
    Source: Williams, Waterman and Patterson 2009 (roofline)

    >>> compute_time(flops=989e9, peak_flops=989e12, compute_efficiency=0.5)
    0.002
    """
    return flops / (compute_efficiency * peak_flops)


def roofline_time(memory_time_s: float, compute_time_s: float) -> float:
    """The bound: the longer of the two times. Of scalars; over arrays take `numpy.maximum` of the two.

    Args:
        memory_time_s: Least time to move the bytes.
        compute_time_s: Least time to do the arithmetic.

    Formula: max(memory_time_s, compute_time_s)
    Unit: s
    Source: Williams, Waterman and Patterson 2009 (roofline)

    >>> roofline_time(memory_time_s=0.0099, compute_time_s=0.0011)
    0.0099
    """
    return max(memory_time_s, compute_time_s)


def throughput(batch: float, step_time_s: float) -> float:
    """Output tokens per second of all sequences together.

    Args:
        batch: Sequences, one token each per step.
        step_time_s: Time of one step.

    Formula: batch / step_time_s
    Unit: tokens/s
    Source: Pope et al. 2023, section 2

    >>> throughput(batch=64, step_time_s=0.01)
    6400.0
    """
    return batch / step_time_s


def experts_touched(experts: float, top_k: float, rows: F) -> F:
    """Experts of a layer that at least one row chooses, on average, when every expert is as likely as any other.

    Args:
        experts: Routed experts in the layer.
        top_k: Experts that each row chooses.
        rows: Rows (tokens) in the step.

    Formula: experts * (1 - (1 - top_k / experts) ** rows)
    Unit: experts
    Source: occupancy of independent draws; each row misses an expert with probability 1 - top_k / experts

    >>> experts_touched(experts=8, top_k=2, rows=1), round(experts_touched(experts=256, top_k=8, rows=64), 1)
    (2.0, 222.4)
    """
    missed: F = (1 - top_k / experts) ** rows
    return experts * (1 - missed)
