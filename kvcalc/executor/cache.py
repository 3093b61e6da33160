"""The cache on the device: keys and values by page, and what a step needs to find its way in them."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcalc.executor.noise import Noise
from kvcalc.executor.pages import DROPPED, PagePool, Pages
from kvcalc.executor.pages import Sequence as Cached
from kvcalc.executor.shape import Shape

if TYPE_CHECKING:
    import torch


@dataclass
class View:
    """What one kind of layer reads in a step. All tensors stay where they are, so that a graph can be replayed."""

    table: "torch.Tensor"  # int32 [batch, places]: the page of each place of each sequence; 0 where there is none
    lengths: "torch.Tensor"  # int32 [batch]: tokens of each, the new one included
    owner: "torch.Tensor"  # int64 [pages]: a sequence that reads the page; `batch` where nobody does
    first: "torch.Tensor"  # int32 [pages]: the position of its first token in that sequence
    page_size: int
    window: int | None
    shared: tuple["torch.Tensor", ...] = ()  # page, owner, first of every further reader of a page


class Cache:
    """Keys and values of all layers, [pages, kv_heads, page_size, head_dim] each, one pool for each window."""

    def __init__(
        self,
        shape: Shape,
        pages: Iterable[int],
        page_size: int,
        dtype: "torch.dtype",
        device: "torch.device",
        seed: int = 0,
    ) -> None:
        """`pages`: the size of each pool, in the order of `windows_of(shape)`."""
        import torch

        windows = windows_of(shape)
        self.device = device
        self.place = [windows.index(window) for window in shape.windows]  # a layer's pool
        layers = [self.place.count(index) for index in range(len(windows))]
        self.pools = [
            torch.zeros(count, 2, size, shape.kv_heads, page_size, shape.head_dim, dtype=dtype, device=device)
            for count, size in zip(layers, pages, strict=True)
        ]
        self.pages = Pages(
            page_size,
            [PagePool(pool.shape[2], seed + index) for index, pool in enumerate(self.pools)],
            windows,
            page_copier(self.pools),
        )
        seen = [0] * len(windows)
        self.layers: list[tuple[torch.Tensor, torch.Tensor]] = []
        for index in self.place:
            keys, values = self.pools[index][seen[index]]
            self.layers.append((keys, values))
            seen[index] += 1

    @property
    def bytes(self) -> int:
        """Memory that the pools hold."""
        return sum(pool.untyped_storage().nbytes() for pool in self.pools)

    def views(self, batch: int, places: int) -> list[View]:
        """Empty views for `batch` sequences of up to `places` pages."""
        import torch

        lengths = torch.zeros(batch, dtype=torch.int32, device=self.device)
        return [
            View(
                table=torch.zeros(batch, places, dtype=torch.int32, device=self.device),
                lengths=lengths,
                owner=torch.full((pool.shape[2],), batch, dtype=torch.int64, device=self.device),
                first=torch.zeros(pool.shape[2], dtype=torch.int32, device=self.device),
                page_size=self.pages.page_size,
                window=window,
            )
            for pool, window in zip(self.pools, self.pages.windows, strict=True)
        ]

    def show(self, sequences: Sequence[Cached], views: list[View]) -> None:
        """Write the tables of these sequences into the views."""
        import torch

        lengths = [one.length for one in sequences]
        views[0].lengths.copy_(torch.tensor(lengths, dtype=torch.int32))
        for index, view in enumerate(views):
            tables = [one.tables[index] for one in sequences]
            _write_table(view, tables)
            _write_owners(view, tables)

    def fill(self, noise: Noise) -> None:
        """Noise in every page."""
        for pool in self.pools:
            noise.fill(pool)


def page_copier(pools: "list[torch.Tensor]") -> Callable[[int, int, int], None]:
    """Copies a page of a pool. It holds the pools and not their cache, so that a cache goes when nobody holds it:
    the collector of cycles is off in a command, and a graph does not start it.
    """

    def copy(index: int, source: int, target: int) -> None:
        pools[index][:, :, target].copy_(pools[index][:, :, source])

    return copy


def windows_of(shape: Shape) -> list[int | None]:
    """The windows that a model's layers have, each once: one pool for each."""
    return list(dict.fromkeys(shape.windows))


def _write_table(view: View, tables: list[list[int]]) -> None:
    import torch

    rows = torch.zeros(view.table.shape, dtype=torch.int32)
    for row, table in zip(rows, tables, strict=True):
        row[: len(table)] = torch.tensor(table, dtype=torch.int32).clamp_(min=0)
    view.table.copy_(rows)


def _write_owners(view: View, tables: list[list[int]]) -> None:
    """The same, seen from the pages: each has one reader here, further ones stand in `shared`."""
    import torch

    nobody = len(tables)
    owner, first = [nobody] * view.owner.numel(), [0] * view.owner.numel()
    more: list[tuple[int, int, int]] = []
    for index, table in enumerate(tables):
        for place, page in enumerate(table):
            if page == DROPPED:
                continue
            if owner[page] == nobody:
                owner[page], first[page] = index, place * view.page_size
            else:
                more.append((page, index, place * view.page_size))
    view.owner.copy_(torch.tensor(owner))
    view.first.copy_(torch.tensor(first, dtype=torch.int32))
    view.shared = tuple(torch.tensor(column, device=view.owner.device) for column in zip(*more, strict=True))
