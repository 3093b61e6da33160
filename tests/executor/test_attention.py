"""Attention over pages on a CPU, against the plain reference in float64."""

import pytest
import torch

from kvcalc.executor.attention import attend_pages, attend_reference, prepare_pages
from kvcalc.executor.cache import Cache, View
from kvcalc.executor.noise import Noise
from kvcalc.executor.shape import Shape

LIMITS = {torch.float32: 1e-6, torch.float16: 5e-3, torch.bfloat16: 5e-3}


def ragged(
    dtype: torch.dtype, group: int, kv_heads: int, dim: int, page_size: int, window: int | None
) -> tuple[Cache, View, torch.Tensor]:
    """Sequences from one token to some pages, the last two on shared pages, one of them with a copy of the last."""
    shape = Shape(8, 8, group * kv_heads, kv_heads, dim, 8, (window,))
    lengths = (1, page_size - 1, page_size, page_size + 1, 3 * page_size + 5)
    cache = Cache(shape, [40], page_size, dtype, torch.device("cpu"), seed=3)
    cache.fill(Noise(1))
    sequences = [cache.pages.start(length) for length in lengths]
    sequences.append(cache.pages.fork(sequences[-1]))
    sequences.append(cache.pages.fork(sequences[-1]))
    cache.pages.append(sequences[-1])
    (view,) = cache.views(len(sequences), 6)
    cache.show(sequences, [view])
    queries = torch.randn(len(sequences), group * kv_heads, dim, generator=torch.Generator().manual_seed(2)).to(dtype)
    return cache, view, queries


@pytest.mark.parametrize("dtype", LIMITS, ids=str)
@pytest.mark.parametrize("window", [None, 20])
@pytest.mark.parametrize("group, kv_heads, dim", [(1, 4, 64), (3, 2, 32), (8, 1, 128), (16, 2, 80)])
@pytest.mark.parametrize("page_size", [16, 64])
def test_pages_are_read_where_they_lie(
    dtype: torch.dtype, window: int | None, group: int, kv_heads: int, dim: int, page_size: int
) -> None:
    cache, view, queries = ragged(dtype, group, kv_heads, dim, page_size, window)
    keys, values = cache.layers[0]
    assert view.shared  # some pages have several readers
    have = attend_pages(queries, keys, values, view, prepare_pages(view, dtype)).double().flatten(1)
    want = attend_reference(queries.double(), keys.double(), values.double(), view).flatten(1)
    assert float(((have - want).norm(dim=1) / want.norm(dim=1)).max()) <= LIMITS[dtype]


def test_the_reference_is_attention() -> None:
    cache, view, queries = ragged(torch.float64, 2, 2, 16, 16, None)
    keys, values = cache.layers[0]
    found = attend_reference(queries, keys, values, view)
    for index, length in enumerate(view.lengths.tolist()):
        tokens = [(int(view.table[index, token // 16]), token % 16) for token in range(length)]
        for head in range(4):
            k = torch.stack([keys[page, head // 2, place] for page, place in tokens])
            v = torch.stack([values[page, head // 2, place] for page, place in tokens])
            shares = torch.softmax(k @ queries[index, head] / 4, dim=0)
            torch.testing.assert_close(found[index, head], shares @ v)


def test_what_nobody_owns_changes_nothing() -> None:
    cache, view, queries = ragged(torch.float32, 2, 2, 32, 16, None)
    keys, values = cache.layers[0]
    before = attend_pages(queries, keys, values, view, prepare_pages(view, torch.float32))
    free = view.owner == queries.shape[0]
    assert bool(free.any())
    keys[free], values[free] = 1e4, -1e4
    after = attend_pages(queries, keys, values, view, prepare_pages(view, torch.float32))
    assert torch.equal(before, after)
