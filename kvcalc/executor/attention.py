"""Decode attention over pages, in plain PyTorch: a reference for any device, and the fast path of a CPU.

Both take queries [batch, query_heads, head_dim] and one layer's keys and values [pages, kv_heads, page_size, head_dim].
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvcalc.executor.cache import View

if TYPE_CHECKING:
    import torch

# Once a step and view → what every layer of the step needs; then (queries, keys, values, view, that) → outputs.
Prepare = Callable[[View, "torch.dtype"], Any]
Attend = Callable[["torch.Tensor", "torch.Tensor", "torch.Tensor", View, Any], "torch.Tensor"]


def attend_reference(
    queries: "torch.Tensor", keys: "torch.Tensor", values: "torch.Tensor", view: View, _: Any = None
) -> "torch.Tensor":
    """Sequence by sequence: its pages in order, a softmax over what the window leaves. Slow and plain."""
    import torch

    batch, heads, width = queries.shape
    kv_heads = keys.shape[1]
    out = torch.zeros_like(queries)
    for index in range(batch):
        length = int(view.lengths[index])
        if length == 0:
            continue
        start = 0 if view.window is None else max(0, length - view.window)
        pages = view.table[index, start // view.page_size : -(-length // view.page_size)].long()
        seen = slice(start % view.page_size, start % view.page_size + length - start)
        k = keys[pages].transpose(0, 1).reshape(kv_heads, -1, width)[:, seen]
        v = values[pages].transpose(0, 1).reshape(kv_heads, -1, width)[:, seen]
        q = queries[index].view(kv_heads, heads // kv_heads, width)
        scores = (q.float() if q.dtype != torch.float64 else q) @ k.to(torch.promote_types(k.dtype, torch.float32)).mT
        shares = torch.softmax(scores * width**-0.5, dim=-1)
        out[index] = (shares @ v.to(shares.dtype)).view(heads, width).to(out.dtype)
    return out


def prepare_pages(view: View, dtype: "torch.dtype") -> tuple["torch.Tensor", "torch.Tensor"]:
    """For every page the reader and which of its tokens that reader attends to, as a mask to add to the scores."""
    import torch

    owner, first = view.owner, view.first
    if view.shared:
        _, more_owner, more_first = view.shared
        owner, first = torch.cat((owner, more_owner)), torch.cat((first, more_first.to(first.dtype)))
    lengths = torch.cat((view.lengths, view.lengths.new_full((1,), 2**30)))[owner].unsqueeze(1)
    position = first.unsqueeze(1) + torch.arange(view.page_size, dtype=torch.int32, device=first.device)
    seen = position < lengths
    if view.window is not None:
        seen &= (position >= lengths - view.window) | (owner == view.lengths.numel()).unsqueeze(1)
    mask = torch.zeros(seen.shape, dtype=dtype).masked_fill_(~seen, float("-inf"))
    return owner, mask[:, None, None, :]


def attend_pages(
    queries: "torch.Tensor", keys: "torch.Tensor", values: "torch.Tensor", view: View, prepared: Any
) -> "torch.Tensor":
    """Every page is a part of its own, read where it lies; then the parts of a sequence are joined by their weights.

    PyTorch's CPU flash attention takes the pages as its batch, so that nothing is gathered but the few pages that have
    several readers. Pages without a reader are computed too and thrown away: a pool is sized for what runs in it.

    Source: Dao et al. 2023 (Flash-Decoding), with a page for a split.
    """
    import torch

    batch, heads, width = queries.shape
    kv_heads = keys.shape[1]
    owner, mask = prepared
    rows = torch.cat((queries, queries.new_zeros(1, heads, width))).view(batch + 1, kv_heads, heads // kv_heads, width)
    rows = rows[owner]
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    pages = keys.shape[0]
    parts, weights = flash(rows[:pages], keys, values, attn_mask=mask[:pages])
    if view.shared:
        again = view.shared[0]
        more, more_weights = flash(
            rows[pages:], keys.index_select(0, again), values.index_select(0, again), attn_mask=mask[pages:]
        )
        parts, weights = torch.cat((parts, more)), torch.cat((weights, more_weights))
    return _join(parts, weights.view(parts.shape[:3]), owner, batch).view(batch, heads, width).to(queries.dtype)


def _join(parts: "torch.Tensor", log_weights: "torch.Tensor", owner: "torch.Tensor", batch: int) -> "torch.Tensor":
    """Σ exp(w) · part / Σ exp(w) over the parts of each sequence."""
    import torch

    shape = (batch + 1, *log_weights.shape[1:])
    index = owner.view(-1, 1, 1).expand_as(log_weights)
    largest = torch.full(shape, float("-inf")).scatter_reduce_(0, index, log_weights, "amax")
    shares = torch.exp(log_weights - largest[owner])
    total = torch.zeros(shape).index_add_(0, owner, shares)
    summed = torch.zeros(*shape, parts.shape[-1]).index_add_(0, owner, parts.float() * shares.unsqueeze(-1))
    return (summed / total.unsqueeze(-1))[:batch]
