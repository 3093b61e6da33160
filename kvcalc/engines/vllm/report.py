"""What vLLM prints of its pool, by version, and in words what it adds to the mathematics.

Source: _report_kv_cache_config in vllm/v1/core/kv_cache_utils.py
"""

from fractions import Fraction

from kvcalc.engines.capacity import Pool
from kvcalc.engines.vllm.planning import Planning, in_flight_tokens
from kvcalc.specs.deployment import Deployment


def printed_tokens(pool: Pool, length: int | None, rules: Planning) -> int | None:
    """ "GPU KV cache size": of models with unlike layers, neither rule is the pool over the bytes of a token.

    Unit: tokens
    """
    sizes = [group.block_size for group in pool.groups if group.block_size]
    if rules.reports_concurrency:
        sequences = _concurrency(pool, length, rules) if length else None
        return None if sequences is None or length is None else int(sequences * length)
    return pool.num_blocks // len(pool.groups) * min(sizes) if sizes else None


def _concurrency(pool: Pool, length: int, rules: Planning) -> Fraction | None:
    """Compressed attention before `packed`: bytes of all groups over those of the first group's block.

    get_max_concurrency_for_kv_cache_config in vllm/v1/core/kv_cache_utils.py, 0.22.1 to 0.26.0.
    """
    if pool.charged_block_bytes is None or rules.compressed_layout == "packed":
        return pool.concurrency(length)
    first = next(group.block_bytes for group in pool.groups if group.window is None)
    blocks = -(-sum(group.blocks(length) * group.block_bytes for group in pool.groups) // first)
    return Fraction(pool.num_blocks, blocks)


def rule_in_words(rules: Planning) -> str:
    """What the printed tokens are, and in which versions."""
    if rules.reports_concurrency:
        return "tokens = concurrency × max_model_len (vLLM 0.21 and later)"
    return "tokens = blocks // groups × smallest block size (vLLM up to 0.20)"


def rounding_in_words(pool: Pool, deployment: Deployment, rules: Planning) -> str:
    """What a sequence takes beyond its own elements."""
    sizes = sorted({group.block_size for group in pool.groups if group.block_size})
    said = [f"blocks of {' and '.join(map(str, sizes))} tokens"] if sizes else []
    widest = max((group.layers for group in pool.groups), default=0)
    padded = sum(widest - group.layers for group in pool.groups)
    if padded and all(group.page_bytes * widest == pool.block_bytes for group in pool.groups):
        said.append(f"{padded} padded layers in {len(pool.groups)} groups")
    if any(group.most_tokens for group in pool.groups):
        said.append(f"windows keep {in_flight_tokens(deployment, rules):,} tokens in flight")
    pages = max((group.fixed_blocks for group in pool.groups if group.kind == "state"), default=0)
    if pages:
        said.append(f"{pages} state page{'s' if pages > 1 else ''} a sequence, as large as a block")
    return ", ".join(said)
