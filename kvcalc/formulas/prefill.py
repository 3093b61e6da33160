"""Prefill: whole prompts, chunks beside decoding sequences, and the recomputation of a preempted sequence."""

from collections.abc import Sequence

from kvcalc.formulas.number import F, N


def causal_pairs(tokens: F, start: F = 0) -> F:
    """Query-key pairs of a run of tokens under a causal mask, the diagonal as half: chunks add up to the whole.

    Args:
        tokens: Tokens in the run.
        start: Tokens before it, which all of them see.

    Formula: tokens * (2 * start + tokens) / 2
    Unit: pairs
    Source: Dao et al. 2022 (FlashAttention), causal masking halves the square

    >>> causal_pairs(512) + causal_pairs(512, start=512) == causal_pairs(1024)
    True
    """
    return tokens * (2 * start + tokens) / 2


def windowed_pairs(tokens: float, window: float, start: float = 0) -> float:
    """Query-key pairs of a run of tokens that each see at most `window` tokens. Of scalars.

    Args:
        tokens: Tokens in the run.
        window: Tokens that a query sees at most.
        start: Tokens before the run.

    Formula: min(start + tokens, window) * (2 * (start + tokens) - min(start + tokens, window)) / 2
        - min(start, window) * (2 * start - min(start, window)) / 2
    Unit: pairs
    Source: Beltagy et al. 2020 (Longformer), section 3.1

    >>> windowed_pairs(100, window=1000) == causal_pairs(100), windowed_pairs(1, window=16, start=1000)
    (True, 16.0)
    """
    end = start + tokens
    seen, seen_before = min(end, window), min(start, window)
    return seen * (2 * end - seen) / 2 - seen_before * (2 * start - seen_before) / 2


def causal_attention_flops(layers: N, query_heads: N, head_dim: N, tokens: N, start: N = 0) -> N:
    """Attention FLOPs of a run of prompt tokens: 4 per pair, head element and layer, over the causal half.

    Args:
        layers: Attention layers.
        query_heads: Query heads per layer.
        head_dim: Elements per head.
        tokens: Tokens in the run: the whole prompt or one chunk.
        start: Tokens of the prompt that are cached already.

    Formula: 2 * layers * query_heads * head_dim * tokens * (2 * start + tokens)
    Unit: FLOP
    Source: ML Systems lesson 12 (LLM inference serving), section 3; Dao 2023 (FlashAttention-2), section 4.1

    >>> causal_attention_flops(layers=32, query_heads=32, head_dim=128, tokens=2048)
    1099511627776
    """
    return 2 * layers * query_heads * head_dim * tokens * (2 * start + tokens)


def prefill_flops(parameters: N, tokens: N, attention_flops: N) -> N:
    """FLOPs of running prompt tokens: each weight multiplies and adds once per token, and attention.

    Args:
        parameters: Parameters that one token meets (the active ones of a mixture of experts).
        tokens: Prompt tokens, or those of a chunk.
        attention_flops: Attention FLOPs of these tokens.

    Formula: 2 * parameters * tokens + attention_flops
    Unit: FLOP
    Source: Kaplan et al. 2020, section 2.1

    >>> prefill_flops(parameters=8_030_000_000, tokens=2048, attention_flops=1099511627776) / 1e12
    33.990391627776
    """
    return 2 * parameters * tokens + attention_flops


def prefill_time(
    weight_bytes: float,
    flops: float,
    bandwidth_bytes_per_s: float,
    peak_flops: float,
    compute_efficiency: float = 1.0,
) -> float:
    """Bound of a prefill: compute, unless the prompt is so short that reading the weights takes longer. Of scalars.

    Args:
        weight_bytes: Bytes of the weights that the pass reads.
        flops: FLOPs of the pass.
        bandwidth_bytes_per_s: Memory bandwidth, bytes/s.
        peak_flops: Dense peak of the element type, FLOP/s.
        compute_efficiency: Share of the peak that is reached; 1 gives the bound.

    Formula: max(weight_bytes / bandwidth_bytes_per_s, flops / (compute_efficiency * peak_flops))
    Unit: s
    Source: Pope et al. 2023, section 2.1

    >>> round(prefill_time(16.06e9, flops=33.99e12, bandwidth_bytes_per_s=3.35e12, peak_flops=989e12), 4)
    0.0344
    """
    return max(weight_bytes / bandwidth_bytes_per_s, flops / (compute_efficiency * peak_flops))


def mixed_step_bytes(decode_bytes: N, chunk_cache_bytes: N = 0) -> N:
    """Bytes of a step that decodes and runs a chunk: the weights are read anyway.

    The lessons leave out the chunk's own reads; pass them for a sharper bound.

    Args:
        decode_bytes: Bytes of the decode step.
        chunk_cache_bytes: Cache of the prompt's earlier tokens, which the chunk reads.

    Formula: decode_bytes + chunk_cache_bytes
    Unit: bytes
    Source: Agrawal et al. 2024 (Sarathi-Serve), section 4

    >>> mixed_step_bytes(decode_bytes=24_650_000_000)
    24650000000
    """
    return decode_bytes + chunk_cache_bytes


def mixed_step_flops(decode_flops: N, chunk_flops: N) -> N:
    """FLOPs of a step that decodes and runs a chunk of a prompt.

    Args:
        decode_flops: FLOPs of the decoding sequences.
        chunk_flops: FLOPs of the chunk, its attention to earlier tokens included.

    Formula: decode_flops + chunk_flops
    Unit: FLOP
    Source: Agrawal et al. 2024 (Sarathi-Serve), section 4

    >>> mixed_step_flops(decode_flops=10, chunk_flops=90)
    100
    """
    return decode_flops + chunk_flops


def free_chunk_tokens(
    memory_time_s: float,
    peak_flops: float,
    parameters: float,
    batch: float,
    attention_flops: float = 0,
    compute_efficiency: float = 1.0,
) -> float:
    """Prompt tokens that fit into a decode step's idle arithmetic. Not above zero: the step is compute-bound already.

    The lessons count weight FLOPs alone; pass the attention FLOPs of the step for a sharper budget.

    Args:
        memory_time_s: Time that the step needs for its bytes.
        peak_flops: Dense peak of the element type, FLOP/s.
        parameters: Parameters that one token meets.
        batch: Decoding sequences.
        attention_flops: Attention FLOPs of the decoding sequences.
        compute_efficiency: Share of the peak that is reached.

    Formula: (memory_time_s * compute_efficiency * peak_flops - attention_flops) // (2 * parameters) - batch
    Unit: tokens
    Source: Agrawal et al. 2024 (Sarathi-Serve), section 4; ML Systems lesson 12, section 4, step 5

    >>> free_chunk_tokens(memory_time_s=7.36e-3, peak_flops=989e12, parameters=8.03e9, batch=64)
    389.0
    """
    return (memory_time_s * compute_efficiency * peak_flops - attention_flops) // (2 * parameters) - batch


def chunks(prompt: int, chunk: int) -> list[tuple[int, int]]:
    """The steps of a chunked prefill, each as (tokens done before it, tokens in it).

    Args:
        prompt: Prompt tokens.
        chunk: Tokens per step; the last step takes the rest.

    Unit: tokens
    Source: Agrawal et al. 2024 (Sarathi-Serve), section 4

    >>> chunks(prompt=1000, chunk=400)
    [(0, 400), (400, 400), (800, 200)]
    """
    return [(start, min(chunk, prompt - start)) for start in range(0, prompt, chunk)]


def chunked_prefill_flops(
    prompt: int, chunk: int, parameters: float, layers: int, query_heads: int, head_dim: int
) -> list[float]:
    """FLOPs of each chunk of a prompt; later chunks attend to more.

    Args:
        prompt: Prompt tokens.
        chunk: Prompt tokens per step.
        parameters: Parameters that one token meets.
        layers: Attention layers.
        query_heads: Query heads per layer.
        head_dim: Elements per head.

    Unit: FLOP
    Source: ML Systems lesson 12 (LLM inference serving), section 8, question 6

    >>> [round(one / 1e12, 2) for one in chunked_prefill_flops(1024, 512, 8.03e9, 32, 32, 128)]
    [8.29, 8.43]
    """
    return [
        prefill_flops(parameters, tokens, causal_attention_flops(layers, query_heads, head_dim, tokens, start))
        for start, tokens in chunks(prompt, chunk)
    ]


def chunked_prefill_step_times(
    chunk_flops: Sequence[float],
    memory_time_s: float,
    decode_flops: float,
    peak_flops: float,
    compute_efficiency: float = 1.0,
) -> list[float]:
    """The bound of each step of a chunked prefill.

    Args:
        chunk_flops: FLOPs of each chunk.
        memory_time_s: Time that each step needs for its bytes.
        decode_flops: FLOPs of the sequences that decode beside the prompt.
        peak_flops: Dense peak of the element type, FLOP/s.
        compute_efficiency: Share of the peak that is reached.

    Unit: s
    Source: ML Systems lesson 12 (LLM inference serving), section 8, question 6

    >>> flops = chunked_prefill_flops(32768, 512, 8.03e9, 32, 32, 128)
    >>> times = chunked_prefill_step_times(flops, 7.36e-3, 1.063e12, peak_flops=989e12)
    >>> len(times), round(times[0], 4), round(times[-1], 3), round(sum(times), 2)
    (64, 0.0095, 0.018, 0.89)
    """
    whole = (mixed_step_flops(decode_flops, flops) for flops in chunk_flops)
    return [max(memory_time_s, flops / (compute_efficiency * peak_flops)) for flops in whole]


def recompute_time(
    parameters: float, tokens: float, peak_flops: float, attention_flops: float = 0, compute_efficiency: float = 1.0
) -> float:
    """Time to restore a preempted sequence by one prefill over its prompt and the tokens generated so far.

    Args:
        parameters: Parameters that one token meets.
        tokens: Tokens to restore.
        peak_flops: Dense peak of the element type, FLOP/s.
        attention_flops: Attention FLOPs of these tokens.
        compute_efficiency: Share of the peak that is reached.

    Formula: (2 * parameters * tokens + attention_flops) / (compute_efficiency * peak_flops)
    Unit: s
    Source: Kwon et al. 2023 (PagedAttention), section 4.5

    >>> round(recompute_time(parameters=8.03e9, tokens=1500, peak_flops=989e12), 4)
    0.0244
    """
    return (2 * parameters * tokens + attention_flops) / (compute_efficiency * peak_flops)
