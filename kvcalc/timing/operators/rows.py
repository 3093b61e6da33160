"""Which row of measured constants an operator takes: its own element type's, or one's whose kernels it runs like.

Source: a judgement: which types share kernels, where one was measured and the other not
"""

from typing import TypeVar

from kvcalc.specs.kernels import (
    AttentionKernel,
    GemmKernel,
    LatentAttentionKernel,
    PrefillAttentionKernel,
)

Kernel = TypeVar("Kernel", GemmKernel, AttentionKernel, LatentAttentionKernel, PrefillAttentionKernel)
NARROW = ("fp8", "int8", "fp4", "nvfp4", "mxfp8", "mxfp4")  # arithmetic on quantized activations
ANY = "any"
# Element types without measurements of their own, and whose kernels they run like.
ALIKE = {"fp16": "bf16", "mxfp8": "fp8", "int8": "fp8", "fp8-channel": "fp8", "fp4": "nvfp4", "mxfp4": "nvfp4"}


def rows_of(rows: tuple[Kernel, ...], dtype: str) -> tuple[Kernel, ...]:
    """All rows of one element type."""
    return tuple(row for row in rows if row.dtype == dtype)


def row_of(rows: tuple[Kernel, ...], *dtypes: str) -> Kernel:
    """The first row of the first of these element types that has one; else the first row, bf16's."""
    for dtype in dtypes:
        for row in rows:
            if row.dtype == dtype and _usable(row):
                return row
    return next(row for row in rows if _usable(row))


def _usable(row: Kernel) -> bool:
    """Whether a step takes it: not one that was measured with what engines hide or fuse."""
    return not isinstance(row, GemmKernel) or row.graph
