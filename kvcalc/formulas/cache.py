"""Memory: what a token and a sequence keep in the cache, what the weights take, and what then fits."""

from kvcalc.formulas.number import N


def kv_bytes_per_token(layers: N, kv_heads: N, head_dim: N, bytes_per_element: N) -> N:
    """Cache bytes that one token adds: a key and a value of every KV head in every layer.

    The common mistakes are to count query heads instead of KV heads, and to forget the 2 (keys and values).

    Args:
        layers: Layers that keep a cache.
        kv_heads: Key/value heads per layer (query heads only where each has its own).
        head_dim: Elements of one head's key, and of its value.
        bytes_per_element: Bytes of one cached element; 2 for bf16, 1 for fp8.

    Formula: 2 * layers * kv_heads * head_dim * bytes_per_element
    Unit: bytes/token
    Source: Pope et al. 2023, section 3.3; Ainslie et al. 2023 (GQA)

    >>> kv_bytes_per_token(layers=32, kv_heads=8, head_dim=128, bytes_per_element=2)
    131072
    """
    return 2 * layers * kv_heads * head_dim * bytes_per_element


def mla_elements_per_token(layers: N, kv_lora_rank: N, rope_head_dim: N) -> N:
    """Cache elements that one token adds under multi-head latent attention: a latent and one rotary key per layer.

    Args:
        layers: Layers with latent attention.
        kv_lora_rank: Elements of the compressed latent.
        rope_head_dim: Elements of the rotary key that all heads share.

    Formula: layers * (kv_lora_rank + rope_head_dim)
    Unit: elements/token
    Source: DeepSeek-AI 2024 (DeepSeek-V2), section 2.1

    >>> mla_elements_per_token(layers=61, kv_lora_rank=512, rope_head_dim=64) * 2  # DeepSeek-V3 in bf16, bytes
    70272
    """
    return layers * (kv_lora_rank + rope_head_dim)


def kv_cache_bytes(kv_bytes_per_token: N, context: N, batch: N = 1) -> N:
    """Cache bytes of a batch of sequences of one length, every layer keeping every token.

    Args:
        kv_bytes_per_token: Bytes that one token adds.
        context: Cached tokens per sequence.
        batch: Sequences.

    Formula: kv_bytes_per_token * batch * context
    Unit: bytes
    Source: Kwon et al. 2023 (PagedAttention), section 3

    >>> kv_cache_bytes(kv_bytes_per_token=524288, context=4096) / 2**30  # Llama-2-7B, GiB
    2.0
    """
    return kv_bytes_per_token * batch * context


def weight_bytes(parameters: N, bytes_per_parameter: N) -> N:
    """Bytes of the weights.

    Args:
        parameters: Stored parameters.
        bytes_per_parameter: Bytes of one, its share of scales included; 2 for bf16, 0.5 for plain int4.

    Formula: parameters * bytes_per_parameter
    Unit: bytes
    Source: Pope et al. 2023, section 2

    >>> weight_bytes(parameters=8_030_261_248, bytes_per_parameter=2)
    16060522496
    """
    return parameters * bytes_per_parameter


def kv_memory_left(memory_bytes: N, weight_bytes: N, other_bytes: N) -> N:
    """Memory that remains for the cache.

    Args:
        memory_bytes: Memory the engine may use.
        weight_bytes: Bytes of the loaded weights.
        other_bytes: Activations, graphs, runtime buffers.

    Formula: memory_bytes - weight_bytes - other_bytes
    Unit: bytes
    Source: Kwon et al. 2023 (PagedAttention), section 1

    >>> kv_memory_left(memory_bytes=80_000_000_000, weight_bytes=16_060_522_496, other_bytes=13_939_477_504)
    50000000000
    """
    return memory_bytes - weight_bytes - other_bytes


def kv_tokens_that_fit(kv_memory_bytes: N, kv_bytes_per_token: N) -> N:
    """Whole tokens that the cache memory holds.

    Args:
        kv_memory_bytes: Memory for the cache.
        kv_bytes_per_token: Bytes that one token adds.

    Formula: kv_memory_bytes // kv_bytes_per_token
    Unit: tokens
    Source: Kwon et al. 2023 (PagedAttention), section 3

    >>> kv_tokens_that_fit(kv_memory_bytes=50_000_000_000, kv_bytes_per_token=131072)
    381469
    """
    return kv_memory_bytes // kv_bytes_per_token


def kv_blocks_that_fit(kv_memory_bytes: N, kv_bytes_per_token: N, block_size: N) -> N:
    """Whole blocks that the cache memory holds.

    Args:
        kv_memory_bytes: Memory for the cache.
        kv_bytes_per_token: Bytes that one token adds.
        block_size: Tokens in a block.

    Formula: kv_memory_bytes // (kv_bytes_per_token * block_size)
    Unit: blocks
    Source: Kwon et al. 2023 (PagedAttention), section 4.2

    >>> kv_blocks_that_fit(kv_memory_bytes=50_000_000_000, kv_bytes_per_token=131072, block_size=16)
    23841
    """
    return kv_memory_bytes // (kv_bytes_per_token * block_size)


def max_batch(kv_memory_bytes: N, cache_bytes_per_sequence: N) -> N:
    """Whole sequences whose cache fits. With the maximum length in the cache it is contiguous reservation.

    Args:
        kv_memory_bytes: Memory for the cache.
        cache_bytes_per_sequence: Cache and state of one sequence at its context.

    Formula: kv_memory_bytes // cache_bytes_per_sequence
    Unit: sequences
    Source: Kwon et al. 2023 (PagedAttention), section 3

    >>> max_batch(kv_memory_bytes=50_000_000_000, cache_bytes_per_sequence=kv_cache_bytes(131072, context=2048))
    186
    """
    return kv_memory_bytes // cache_bytes_per_sequence
