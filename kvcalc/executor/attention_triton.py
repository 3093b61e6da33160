"""Launching the attention kernels: tile and split sizes, and the scratch that the parts are kept in."""

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kvcalc.executor.cache import View
from kvcalc.results.calibrate import Tiling
from kvcalc.specs.base import replace

if TYPE_CHECKING:
    import torch

TILE_HEADS = 16  # the least rows of a matrix tile
LEAST_TOKENS = 256  # of a part: below this the parts' own cost dominates
PROGRAMS_PER_SM = 4
MOST_SPLITS = 64  # the join holds all parts of a head in registers


def usual_tiling(head_dim: int) -> Tiling:
    """Tiles of 64 tokens, fewer where keys and values of 64 would not fit beside each other.

    >>> usual_tiling(128).tokens, usual_tiling(256).tokens
    (64, 32)
    """
    return Tiling(tokens=64 if head_dim <= 128 else 32)


def tilings(head_dim: int, group: int) -> tuple[Tiling, ...]:
    """What a calibration tries, the usual one first; a head with KV of its own has no pipeline to deepen.

    >>> len(tilings(128, 4)), len(tilings(128, 1))
    (9, 4)
    """
    tokens = usual_tiling(head_dim).tokens
    half, twice = tokens // 2, tokens * 2
    single = (tokens, 4, 3), (tokens, 8, 3), (half, 4, 3), (twice, 8, 3)
    split = (*single, (tokens, 4, 2), (tokens, 4, 4), (half, 4, 4), (twice, 4, 2), (twice, 8, 2))
    tried = single if group == 1 else split
    return tuple(Tiling(tokens=one, warps=warps, stages=stages) for one, warps, stages in tried)


def split_count(batch: int, tiles: int, tokens: int, processors: int) -> int:
    """Parts of the tokens: enough programs to fill the chip, each with tokens enough; a power of two for the join.

    `tiles`: of heads, that each sequence has a program for in every part.

    >>> split_count(1, 8, 8192, 132), split_count(64, 8, 2048, 132), split_count(1, 8, 100, 132)
    (32, 2, 1)
    """
    filling = -(-PROGRAMS_PER_SM * processors // (batch * tiles))
    wanted = min(filling, -(-tokens // LEAST_TOKENS), MOST_SPLITS)
    return 1 << (max(1, wanted).bit_length() - 1)


class TritonAttention:
    """Attention of one batch size and table width; the scratch is allocated once, so that graphs can be captured."""

    def __init__(
        self, batch: int, kv_heads: int, group: int, device: "torch.device", tiling: Tiling | None = None
    ) -> None:
        """`tiling`: of the calibration; None: the usual one."""
        self.batch, self.kv_heads, self.group = batch, kv_heads, group
        self.device = device
        self.tiling = tiling  # what is launched, once something was
        self._scratch: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    def prepare(self, view: View, _: "torch.dtype") -> Any:
        """Parts for the longest sequence that the table has room for."""
        tokens = view.table.shape[1] * view.page_size
        reach = tokens if view.window is None else min(tokens, view.window)
        return split_count(self.batch, self.kv_heads * self._tiles, reach, _processors(self.device))

    @property
    def _tiles(self) -> int:
        """Of the query heads of one KV head."""
        return 1 if self.group == 1 else -(-self.group // TILE_HEADS)

    def __call__(
        self, queries: "torch.Tensor", keys: "torch.Tensor", values: "torch.Tensor", view: View, splits: int
    ) -> "torch.Tensor":
        import torch
        import triton

        from kvcalc.executor.kernels import join_kernel, single_kernel, split_kernel

        batch, heads, dim = queries.shape
        if splits not in self._scratch:
            parts = torch.empty(batch, heads, splits, dim, dtype=torch.float32, device=queries.device)
            self._scratch[splits] = parts, parts.new_empty(batch, heads, splits)
        parts, sums = self._scratch[splits]
        out = torch.empty_like(queries)
        width = triton.next_power_of_2(dim)
        tiling = self.tiling or usual_tiling(dim)
        given = (
            queries, keys, values, view.table, view.lengths, parts, sums, dim**-0.5,
            view.table.stride(0), *keys.stride()[:3],
        )  # fmt: skip
        sizes: dict[str, Any] = {
            "PAGE": view.page_size, "DIM": dim, "WIDTH": width, "WINDOW": view.window or 0, "SPLITS": splits,
            "HEADS": heads, "BLOCK": tiling.tokens, "INTERPRETED": os.environ.get("TRITON_INTERPRET") == "1",
        }  # fmt: skip
        if self.group == 1:
            single_kernel[(batch, heads, splits)](*given, **sizes, num_warps=tiling.warps)
        else:
            tiles = self._tiles
            grid = (batch, self.kv_heads * tiles, splits)
            stages = fitting(
                lambda stages: split_kernel[grid](
                    *given, **sizes, GROUP=self.group, TILES=tiles, num_warps=tiling.warps, num_stages=stages
                ),
                tiling.stages,
            )
            tiling = replace(tiling, stages=stages)
        self.tiling = tiling
        join_kernel[(batch * heads,)](parts, sums, out, DIM=dim, WIDTH=width, SPLITS=splits)
        return out


def fitting(launch: Callable[[int], Any], stages: int) -> int:
    """Launch with as deep a pipeline as a block's shared memory holds, from `stages` down; says how deep.

    Keys and values of 64 tokens and 128 elements take 72 KB at three stages and 104 KB at four, where many GPUs give a
    block 99 KB, AMD's 64.
    """
    while True:
        try:
            launch(stages)
        except Exception as error:
            if type(error).__name__ != "OutOfResources" or stages == 1:
                raise
            stages -= 1
        else:
            return stages


def _processors(device: "torch.device") -> int:
    import torch

    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
