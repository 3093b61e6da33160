"""llama.cpp's experts: many small multiplications in tiles that few tokens fill.

Pure formulas of quantities and constants, for numbers and NumPy arrays alike.

Unit: s
Source: ggml-org/llama.cpp, ggml/src/ggml-cuda/mmq.cuh and ggml-vulkan.cpp, for how wide a tile is; what it costs was
fitted: `gpu_specs/llamacpp/`
"""

from math import e
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, least

VECTOR_ROWS = 8  # up to here kernels multiply row by row, with each weight read once (MMVQ_MAX_BATCH_SIZE)
TILE_STEP = 8  # columns: widths of tiles are multiples of it


class Tiles(NamedTuple):
    """How the tiles of an expert's multiplication cost: columns are tokens.

    The width is chosen for all tokens of the ubatch, as if they could all choose one expert; that expert's own tokens
    fill few of the columns. What is left idle is multiplied all the same.
    """

    widest: Quantity  # columns of the widest tile that the device has
    lost: Quantity  # columns' worth of time that a tile costs beside its columns
    idle_share: Quantity  # what an idle column costs, of a filled one


def tile_width(tokens: Quantity, widest: Quantity) -> Quantity:
    """Columns of the tiles of a multiplication with so many tokens: one tile for all, as far as there is one so wide.

    Unit: tokens
    Source: ggml-org/llama.cpp, mmq.cuh (mul_mat_q_case, over `ncols_max`, which is the whole ubatch for experts too);
    ggml-vulkan.cpp (ggml_vk_guess_matmul_id_pipeline) chooses alike

    >>> tile_width(12, 128), tile_width(128, 128), tile_width(512, 128), tile_width(512, 32)
    (16, 128, 128, 32)
    """
    return least(widest, TILE_STEP * -(-tokens // TILE_STEP))


def idle_columns(tokens: Quantity, each: Quantity, widest: Quantity) -> Quantity:
    """Columns of an expert's tiles that hold no token, where experts get `each` tokens on average.

    Few experts get many tokens and many get few: shares fall off exponentially, so that an expert has
    1 / (1 - exp(-width / each)) tiles on average.

    Unit: tokens
    Source: the exponential distribution's mean number of steps; pull request 26977 of ggml-org/llama.cpp measured what
    narrower tiles would gain

    >>> [round(idle_columns(*sizes, 128), 1) for sizes in ((128, 8), (512, 32), (2048, 512))]
    [120.0, 98.4, 66.7]
    """
    width = tile_width(tokens, widest)
    return width / (1 - e ** (-width / each)) - each


def woken_experts(
    read: tuple[Quantity, Quantity], compute: Quantity, tokens: Quantity, each: Quantity, tiles: Tiles
) -> Quantity:
    """Seconds of the experts that a step wakes: they are read while others compute, √(read² + compute²).

    Args:
        read: seconds of reading them for one token, and for many.
        compute: of all rows at the achieved rate.
        tokens: of the step; one token computes while it reads.
        each: rows of one woken expert.
        tiles: how the kernels of many tokens cost.

    >>> tiles = Tiles(widest=128, lost=5, idle_share=0.2)
    >>> woken_experts((0.02, 0.01), 0.5, 1, 1, tiles), round(woken_experts((0.02, 0.01), 0.006, 64, 16, tiles), 4)
    (0.02, 0.0153)
    """
    wide = tokens > VECTOR_ROWS
    reading = (1 - wide) * read[0] + wide * read[1]
    rows = greatest(each, 1)
    columns = rows + tiles.lost + wide * tiles.idle_share * idle_columns(tokens, rows, tiles.widest)
    computing = beyond_one(tokens) * compute * columns / rows
    return (reading**2 + computing**2) ** 0.5


def beyond_one(rows: Quantity) -> Quantity:
    """0 with one row, 1 with two and more.

    Unit: 1

    >>> beyond_one(1), beyond_one(16)
    (0, 1)
    """
    return least(greatest(rows - 1, 0), 1)
