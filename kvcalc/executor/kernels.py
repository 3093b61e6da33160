"""Paged decode attention for GPUs in Triton: the cached tokens of a sequence are divided among programs, then joined.

    split   one program for (sequence, tile of up to 16 query heads of one KV head, part of the tokens)
    single  the same where every query head has its own KV head: no matrix tile would be filled
    join    one program for (sequence, query head): weighs the parts by their sums

Page numbers are read one a tile where a page holds the whole tile, else one a token; and a tile ahead, so that keys and
values wait for no other load and N stages keep N - 1 tiles in flight. Accumulation is in fp32, softmax in base 2.
`INTERPRETED` widens bf16 at once, since Triton's interpreter computes wrongly on it.

Source: Dao et al. 2023 (Flash-Decoding); Kwon et al. 2023 (PagedAttention).
"""

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _bounds(lengths, sequence, part, WINDOW: tl.constexpr, SPLITS: tl.constexpr, BLOCK: tl.constexpr):
    """Tokens [start, stop) of this part, in whole blocks, and the first token that the window leaves."""
    length = tl.load(lengths + sequence)
    first = tl.maximum(length - WINDOW, 0) if WINDOW > 0 else length * 0
    blocks = tl.cdiv(length, BLOCK) - first // BLOCK
    share = tl.cdiv(blocks, SPLITS)
    start = (first // BLOCK + part * share) * BLOCK
    return first, start, tl.minimum(start + share * BLOCK, length)


@triton.jit
def _pages(table, token, length, PAGE: tl.constexpr, BLOCK: tl.constexpr):
    """Page numbers of the tile from `token` on: one where a page holds it all, else one a token; 0 past the end."""
    tokens = token if PAGE >= BLOCK else token + tl.arange(0, BLOCK)
    return tl.load(table + tokens // PAGE, mask=tokens < length, other=0)


@triton.jit
def split_kernel(
    q, k, v, table, lengths, parts, sums, scale, table_stride, page_stride, head_stride, token_stride,
    GROUP: tl.constexpr, TILES: tl.constexpr, PAGE: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr,
    WINDOW: tl.constexpr, SPLITS: tl.constexpr, HEADS: tl.constexpr, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """A tile of 16 query heads that share a KV head, over one part of the tokens."""
    sequence, kv_head, part = tl.program_id(0), tl.program_id(1) // TILES, tl.program_id(2)
    first, start, stop = _bounds(lengths, sequence, part, WINDOW, SPLITS, BLOCK)

    row = (tl.program_id(1) % TILES) * 16 + tl.arange(0, 16)
    head = kv_head * GROUP + row
    dims = tl.arange(0, WIDTH)
    kept = (row < GROUP)[:, None] & (dims < DIM)[None, :]
    query = tl.load(q + (sequence * HEADS + head)[:, None] * DIM + dims[None, :], mask=kept, other=0.0)
    if INTERPRETED:
        query = query.to(tl.float32)

    largest = tl.full([16], float("-inf"), tl.float32)
    total = tl.zeros([16], tl.float32)
    summed = tl.zeros([16, WIDTH], tl.float32)
    row_of = table + sequence * table_stride
    page = _pages(row_of, start, stop, PAGE, BLOCK)
    for token in range(start, stop, BLOCK):
        tokens = token + tl.arange(0, BLOCK)
        place = page.to(tl.int64) * page_stride + (tokens % PAGE) * token_stride + kv_head * head_stride
        page = _pages(row_of, token + BLOCK, stop, PAGE, BLOCK)  # of the next tile
        present = (tokens < stop)[:, None] & (dims < DIM)[None, :]
        keys = tl.load(k + place[:, None] + dims[None, :], mask=present, other=0.0)
        values = tl.load(v + place[:, None] + dims[None, :], mask=present, other=0.0)
        if INTERPRETED:
            keys, values = keys.to(tl.float32), values.to(tl.float32)
        scores = tl.dot(query, tl.trans(keys), input_precision="ieee") * (scale * LOG2_E)
        scores = tl.where(((tokens < stop) & (tokens >= first))[None, :], scores, float("-inf"))
        above = tl.maximum(largest, tl.max(scores, 1))
        shift = tl.where(above == float("-inf"), 0.0, above)  # nothing seen yet: avoid inf - inf
        shares = tl.exp2(scores - shift[:, None])
        shrink = tl.exp2(largest - shift)
        summed = summed * shrink[:, None]
        summed += tl.dot(shares.to(values.dtype), values, input_precision="ieee")
        total = total * shrink + tl.sum(shares, 1)
        largest = above

    where = (sequence * HEADS + head) * SPLITS + part
    tl.store(parts + where[:, None] * DIM + dims[None, :], summed / tl.maximum(total, 1e-30)[:, None], mask=kept)
    tl.store(sums + where, tl.where(total > 0, largest + tl.log2(total), float("-inf")), mask=row < GROUP)


@triton.jit
def single_kernel(
    q, k, v, table, lengths, parts, sums, scale, table_stride, page_stride, head_stride, token_stride,
    PAGE: tl.constexpr, DIM: tl.constexpr, WIDTH: tl.constexpr, WINDOW: tl.constexpr, SPLITS: tl.constexpr,
    HEADS: tl.constexpr, BLOCK: tl.constexpr, INTERPRETED: tl.constexpr,
):  # fmt: skip
    """One query head with a KV head of its own, over one part of the tokens: products by element, no matrix tile."""
    sequence, head, part = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    first, start, stop = _bounds(lengths, sequence, part, WINDOW, SPLITS, BLOCK)
    dims = tl.arange(0, WIDTH)
    query = tl.load(q + (sequence * HEADS + head) * DIM + dims, mask=dims < DIM, other=0.0).to(tl.float32)

    largest = float("-inf")
    total = 0.0
    summed = tl.zeros([WIDTH], tl.float32)
    row_of = table + sequence * table_stride
    page = _pages(row_of, start, stop, PAGE, BLOCK)
    for token in range(start, stop, BLOCK):
        tokens = token + tl.arange(0, BLOCK)
        place = page.to(tl.int64) * page_stride + (tokens % PAGE) * token_stride + head * head_stride
        page = _pages(row_of, token + BLOCK, stop, PAGE, BLOCK)  # of the next tile
        present = (tokens < stop)[:, None] & (dims < DIM)[None, :]
        keys = tl.load(k + place[:, None] + dims[None, :], mask=present, other=0.0).to(tl.float32)
        values = tl.load(v + place[:, None] + dims[None, :], mask=present, other=0.0)  # on its way meanwhile
        scores = tl.sum(keys * query[None, :], 1) * (scale * LOG2_E)
        scores = tl.where((tokens < stop) & (tokens >= first), scores, float("-inf"))
        above = tl.maximum(largest, tl.max(scores, 0))
        shift = tl.where(above == float("-inf"), 0.0, above)
        shares = tl.exp2(scores - shift)
        shrink = tl.exp2(largest - shift)
        summed = summed * shrink + tl.sum(shares[:, None] * values.to(tl.float32), 0)
        total = total * shrink + tl.sum(shares, 0)
        largest = above

    where = (sequence * HEADS + head) * SPLITS + part
    tl.store(parts + where * DIM + dims, summed / tl.maximum(total, 1e-30), mask=dims < DIM)
    tl.store(sums + where, tl.where(total > 0, largest + tl.log2(total), float("-inf")))


@triton.jit
def join_kernel(parts, sums, out, DIM: tl.constexpr, WIDTH: tl.constexpr, SPLITS: tl.constexpr):
    """Σ 2^sum · part / Σ 2^sum over the parts of one query head. SPLITS is a power of two."""
    row = tl.program_id(0).to(tl.int64)
    split, dims = tl.arange(0, SPLITS), tl.arange(0, WIDTH)
    weight = tl.load(sums + row * SPLITS + split)
    largest = tl.max(weight, 0)
    weight = tl.exp2(weight - tl.where(largest == float("-inf"), 0.0, largest))
    kept = (split >= 0)[:, None] & (dims < DIM)[None, :]
    part = tl.load(parts + (row * SPLITS + split)[:, None] * DIM + dims[None, :], mask=kept, other=0.0)
    joined = tl.sum(part * weight[:, None], 0) / tl.maximum(tl.sum(weight, 0), 1e-30)
    tl.store(out + row * DIM + dims, joined.to(out.dtype.element_ty), mask=dims < DIM)
