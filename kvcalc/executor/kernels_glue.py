"""What stands between the matrix products of a layer, one Triton kernel each: norm, rotary and cache write, gate."""

import triton
import triton.language as tl


@triton.jit
def norm_kernel(x, delta, weight, normed, eps, HIDDEN: tl.constexpr, WIDTH: tl.constexpr, ADD: tl.constexpr):
    """x += delta, kept; normed = x / rms(x) · weight. One program a row."""
    row = tl.program_id(0).to(tl.int64) * HIDDEN
    columns = tl.arange(0, WIDTH)
    kept = columns < HIDDEN
    kind = x.dtype.element_ty
    value = tl.load(x + row + columns, mask=kept, other=0.0).to(tl.float32)
    if ADD:
        value += tl.load(delta + row + columns, mask=kept, other=0.0).to(tl.float32)
        value = value.to(kind).to(tl.float32)
        tl.store(x + row + columns, value.to(kind), mask=kept)
    scale = tl.rsqrt(tl.sum(value * value, 0) / HIDDEN + eps)
    gain = tl.load(weight + columns, mask=kept, other=0.0).to(tl.float32)
    tl.store(normed + row + columns, ((value * scale).to(kind).to(tl.float32) * gain).to(kind), mask=kept)


@triton.jit
def rotary_kernel(
    qkv, cos, sin, lengths, table, q_norm, k_norm, q_out, keys, values, eps, table_stride, page_stride, head_stride,
    token_stride, QUERY_HEADS: tl.constexpr, KV_HEADS: tl.constexpr, HALF: tl.constexpr, WIDTH: tl.constexpr,
    PAGE: tl.constexpr, NORM: tl.constexpr,
):  # fmt: skip
    """One program for one head of a row: normalise and turn queries and keys, and put keys and values in their page."""
    row, head = tl.program_id(0), tl.program_id(1)
    heads: tl.constexpr = QUERY_HEADS + 2 * KV_HEADS
    kind = qkv.dtype.element_ty
    half = tl.arange(0, WIDTH)
    kept = half < HALF
    source = qkv + (row * heads + head).to(tl.int64) * 2 * HALF
    low = tl.load(source + half, mask=kept, other=0.0)
    high = tl.load(source + HALF + half, mask=kept, other=0.0)

    position = tl.load(lengths + row) - 1
    page = tl.load(table + row * table_stride + position // PAGE).to(tl.int64)
    if head < QUERY_HEADS + KV_HEADS:
        low32, high32 = low.to(tl.float32), high.to(tl.float32)
        if NORM:
            scale = tl.rsqrt((tl.sum(low32 * low32, 0) + tl.sum(high32 * high32, 0)) / (2 * HALF) + eps)
            gain = q_norm if head < QUERY_HEADS else k_norm
            low32 = (low32 * scale).to(kind).to(tl.float32) * tl.load(gain + half, mask=kept, other=0.0).to(tl.float32)
            high32 = (high32 * scale).to(kind).to(tl.float32) * tl.load(gain + HALF + half, mask=kept, other=0.0).to(
                tl.float32
            )
        c = tl.load(cos + position * HALF + half, mask=kept, other=0.0).to(tl.float32)
        s = tl.load(sin + position * HALF + half, mask=kept, other=0.0).to(tl.float32)
        low, high = (low32 * c - high32 * s).to(kind), (high32 * c + low32 * s).to(kind)

    inside = page * page_stride + (position % PAGE) * token_stride
    if head < QUERY_HEADS:
        target = q_out + (row * QUERY_HEADS + head).to(tl.int64) * 2 * HALF
    elif head < QUERY_HEADS + KV_HEADS:
        target = keys + inside + (head - QUERY_HEADS) * head_stride
    else:
        target = values + inside + (head - QUERY_HEADS - KV_HEADS) * head_stride
    tl.store(target + half, low, mask=kept)
    tl.store(target + HALF + half, high, mask=kept)


@triton.jit
def gate_kernel(gate_up, out, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    """silu(gate) · up, the two side by side in one row."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    kept = columns < COLUMNS
    kind = out.dtype.element_ty
    gate = tl.load(gate_up + row * 2 * COLUMNS + columns, mask=kept, other=0.0).to(tl.float32)
    up = tl.load(gate_up + row * 2 * COLUMNS + COLUMNS + columns, mask=kept, other=0.0).to(tl.float32)
    silu = (gate / (1 + tl.exp(-gate))).to(kind).to(tl.float32)
    tl.store(out + row * COLUMNS + columns, (silu * up).to(kind), mask=kept)
