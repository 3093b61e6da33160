"""Attention: decode reads the cache, prompts compute among their tokens, absorbed latents do both.

Unit: s
Source: Williams, Waterman and Patterson 2009 (roofline), at measured shares of its roofs: `gpu_specs/kernels/`, each
file with its evidence, made by `benchmarks/refit.py`
"""

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.counting.work import Operator
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.rows import ALIKE, row_of, rows_of
from kvcalc.timing.operators.smooth import Times, smooth_maximum
from kvcalc.timing.peaks import arithmetic

# Rows of a tile where the cache is paged (run_mha_fwd_splitkv_dispatch, flash_fwd_launch_template.h), and what caches
# FlashAttention 2 reads.
TILE_ROWS, PACKED = 64, ("bf16", "fp16")
SHARED_READING = (8, 128)  # query heads of a group and elements of a head for which TensorRT-LLM first had a kernel


def attention_time(bytes_read: Quantity, flops: Quantity, bandwidth: float, peak: float, latency: float) -> Times:
    """Decode attention reads the cache; its FLOPs hide behind that, but for what the peak does not reach."""
    return latency, greatest(bytes_read / bandwidth, flops / peak)


def latent_attention_time(
    bytes_read: Quantity, flops: Quantity, walk_s: Quantity, bandwidth: float, peak: float, latency: float
) -> Times:
    """Absorbed latent attention: bandwidth, FLOPs of all heads on one latent, or the walk along one context."""
    return latency, smooth_maximum(bytes_read / bandwidth, flops / peak, walk_s)


def prefill_attention_time(
    flops: Quantity, bytes_moved: Quantity, bandwidth: float, peak: float, latency: float
) -> Times:
    """Attention among a prompt's tokens: FLOPs, and queries and outputs, which do not overlap with them."""
    return latency, flops / peak + bytes_moved / bandwidth


def decode_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work) of reading keys and values, or a recurrent state, with this engine's kernels."""
    stored = operator.format, ALIKE.get(operator.format, operator.format)
    rows = next((found for dtype in stored if (found := rows_of(machine.kernels.attention, dtype))), None)
    rows = rows or machine.kernels.attention
    row = next((row for row in rows if row.library == machine.profile.library), rows[0])
    _, peak = arithmetic(machine.gpu, operator.compute)
    latency, work = attention_time(
        operator.bytes, operator.flops, row.bandwidth_share * machine.bandwidth, peak, row.latency_s
    )
    return latency, greatest(work, _tiled(operator, machine, peak)) + _reread(operator, machine.profile)


def _tiled(operator: Operator, machine: Machine, peak: float) -> Quantity:
    """FlashAttention 2 packs the heads of a group into one tile where each sequence has one row, and not beside others.

    Then each head's row fills a tile of its own: FLOPs instead of bytes. One sequence is walked through by one block.
    """
    share = machine.kernels.tiled_share
    if share is None or not machine.profile.one_attention_call or operator.format not in PACKED:
        return 0.0
    walk_s = operator.context * machine.kernels.tiled_token_s * least(operator.tiled_flops, 1)
    return greatest(TILE_ROWS * operator.tiled_flops / (share * peak), walk_s)


def _reread(operator: Operator, profile: Profile) -> Quantity:
    """Kernels that treat each query head apart read the cache again for each further head of a group, from L2."""
    again = operator.group_heads - 1
    shared = (operator.group_heads, operator.head_dim) == SHARED_READING and not profile.reread_all
    if not profile.reread_bytes_per_s or again <= 0 or shared:
        return 0.0
    return again * operator.cache_bytes / profile.reread_bytes_per_s


def latent_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work) of absorbed latent attention."""
    row = row_of(machine.kernels.latent_attention, operator.format, ALIKE.get(operator.format, operator.format))
    _, peak = arithmetic(machine.gpu, operator.compute)
    return latent_attention_time(
        operator.bytes,
        operator.flops,
        operator.context * row.token_s,
        row.bandwidth_share * machine.bandwidth,
        row.flops_share * peak,
        row.latency_s,
    )


def prompt_seconds(operator: Operator, machine: Machine) -> Times:
    """(latency, work) of attention among a prompt's tokens."""
    row = row_of(machine.kernels.prefill_attention, operator.format, ALIKE.get(operator.format, operator.format))
    _, peak = arithmetic(machine.gpu, operator.compute)
    return prefill_attention_time(
        operator.flops,
        operator.bytes,
        row.bandwidth_share * machine.bandwidth,
        row.flops_share * machine.sustained_share * peak,
        row.latency_s,
    )
