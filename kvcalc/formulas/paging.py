"""Paged cache memory: blocks, what they waste, and what samples of one prompt share."""

from kvcalc.formulas.number import N


def blocks_for_tokens(tokens: N, block_size: N) -> N:
    """Blocks that a sequence occupies.

    Args:
        tokens: Live tokens of the sequence.
        block_size: Tokens in a block.

    Formula: -(-tokens // block_size)
    Unit: blocks
    Source: Kwon et al. 2023 (PagedAttention), section 4.2

    >>> blocks_for_tokens(tokens=100, block_size=16)
    7
    """
    return -(-tokens // block_size)


def sequences_in_blocks(num_blocks: N, unusable_blocks: N, blocks_per_sequence: N) -> N:
    """Whole sequences whose blocks a pool holds.

    Args:
        num_blocks: Blocks of the pool.
        unusable_blocks: Of them, those that are never given to a sequence: vLLM's null block.
        blocks_per_sequence: Blocks that one sequence takes, of all groups of layers.

    Formula: (num_blocks - unusable_blocks) // blocks_per_sequence
    Unit: sequences
    Source: Kwon et al. 2023 (PagedAttention), section 4.2

    >>> sequences_in_blocks(num_blocks=23841, unusable_blocks=1, blocks_per_sequence=128)
    186
    """
    return (num_blocks - unusable_blocks) // blocks_per_sequence


def max_concurrency(num_blocks: float, blocks_per_sequence: float) -> float:
    """Sequences of the maximum length that a pool holds, fractions counted: what vLLM prints when it starts.

    Args:
        num_blocks: Blocks of the pool.
        blocks_per_sequence: Blocks that one sequence of the maximum length takes, of all groups of layers.

    Formula: num_blocks / blocks_per_sequence
    Unit: sequences
    Source: vLLM, v1/core/kv_cache_utils.py: get_max_concurrency_for_kv_cache_config

    >>> max_concurrency(num_blocks=28435, blocks_per_sequence=512)
    55.537109375
    """
    return num_blocks / blocks_per_sequence


def paged_slots(tokens: N, block_size: N) -> N:
    """Token slots that a paged sequence occupies: whole blocks, on demand.

    Args:
        tokens: Live tokens of the sequence.
        block_size: Tokens in a block.

    Formula: block_size * -(-tokens // block_size)
    Unit: slots
    Source: Kwon et al. 2023 (PagedAttention), section 4.2

    >>> paged_slots(tokens=100, block_size=16)
    112
    """
    return block_size * -(-tokens // block_size)


def wasted_slots(tokens: N, block_size: N) -> N:
    """Empty slots of a paged sequence, all of them in its last block.

    Args:
        tokens: Live tokens of the sequence.
        block_size: Tokens in a block.

    Formula: -tokens % block_size
    Unit: slots
    Source: Kwon et al. 2023 (PagedAttention), section 4.3

    >>> wasted_slots(tokens=100, block_size=16)
    12
    """
    return -tokens % block_size


def max_wasted_slots(block_size: N) -> N:
    """The most slots that paging can waste on a sequence.

    Args:
        block_size: Tokens in a block.

    Formula: block_size - 1
    Unit: slots
    Source: Kwon et al. 2023 (PagedAttention), section 4.3

    >>> max_wasted_slots(block_size=16)
    15
    """
    return block_size - 1


def reserved_slots(sequences: N, max_len: N) -> N:
    """Slots that contiguous reservation holds: the maximum length for each sequence, whatever its real one.

    Args:
        sequences: Running sequences.
        max_len: Maximum tokens of a sequence.

    Formula: sequences * max_len
    Unit: slots
    Source: Kwon et al. 2023 (PagedAttention), section 3.1

    >>> reserved_slots(sequences=200, max_len=8192)
    1638400
    """
    return sequences * max_len


def used_share(live_tokens: float, slots: float) -> float:
    """Share of the held slots that hold tokens.

    Args:
        live_tokens: Tokens in the cache.
        slots: Slots reserved or allocated for them.

    Formula: live_tokens / slots
    Unit: 1
    Source: Kwon et al. 2023 (PagedAttention), section 3.1 and figure 2

    >>> round(used_share(live_tokens=322_055, slots=1_638_400), 3)
    0.197
    """
    return live_tokens / slots


def unshared_blocks(prompt: N, block_size: N, samples: N) -> N:
    """Blocks of several samples of one prompt when each holds its own copy. With sharing: `blocks_for_tokens`.

    Args:
        prompt: Prompt tokens.
        block_size: Tokens in a block.
        samples: Sequences that continue the prompt.

    Formula: samples * -(-prompt // block_size)
    Unit: blocks
    Source: Kwon et al. 2023 (PagedAttention), section 4.4

    >>> unshared_blocks(prompt=100, block_size=16, samples=3)
    21
    """
    return samples * -(-prompt // block_size)


def shared_blocks_after_writes(prompt: N, block_size: N, samples: N, written: N = 1) -> N:
    """Blocks of samples that share their prompt, once each has written: the full prompt blocks, and private ends.

    Args:
        prompt: Prompt tokens.
        block_size: Tokens in a block.
        samples: Sequences that continue the prompt.
        written: Tokens that each has written, at least 1.

    Formula: prompt // block_size + samples * -(-(prompt % block_size + written) // block_size)
    Unit: blocks
    Source: Kwon et al. 2023 (PagedAttention), section 4.4

    >>> shared_blocks_after_writes(prompt=100, block_size=16, samples=3)
    9
    """
    return prompt // block_size + samples * -(-(prompt % block_size + written) // block_size)


def copies_on_write(prompt: N, block_size: N, samples: N) -> N:
    """Blocks that are copied when samples of one prompt start to write.

    Every sample but the last finds the partly filled block shared; the last finds it its own. A prompt that ends with
    a full block needs no copy.

    Args:
        prompt: Prompt tokens.
        block_size: Tokens in a block.
        samples: Sequences that continue the prompt, at least 1.

    Formula: (samples - 1) * -(-(prompt % block_size) // block_size)
    Unit: blocks
    Source: Kwon et al. 2023 (PagedAttention), section 4.4

    >>> copies_on_write(prompt=100, block_size=16, samples=3), copies_on_write(prompt=96, block_size=16, samples=3)
    (2, 0)
    """
    return (samples - 1) * -(-(prompt % block_size) // block_size)


def blocks_after_each_write(prompt: int, block_size: int, samples: int) -> list[int]:
    """Blocks in use before any write, then after each sample in turn has written its first token.

    It counts references as an allocator does, so it checks the two formulas above.

    Args:
        prompt: Prompt tokens.
        block_size: Tokens in a block.
        samples: Sequences that continue the prompt.

    Unit: blocks
    Source: Kwon et al. 2023 (PagedAttention), section 4.4

    >>> blocks_after_each_write(prompt=100, block_size=16, samples=3)
    [7, 8, 9, 9]
    """
    used = [blocks_for_tokens(prompt, block_size)]
    sharers = samples  # reference count of the block that the prompt ends in
    for _ in range(samples):
        partly_filled = prompt % block_size > 0
        in_place = partly_filled and sharers == 1
        used.append(used[-1] + (0 if in_place else 1))  # a private copy, or a fresh block after a full one
        sharers -= 1
    return used
