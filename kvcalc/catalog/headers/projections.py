"""The matrices that a layer makes its keys and values with, as a checkpoint's headers state their shapes.

Their rows are the widths of the cache: what a config leaves in doubt, they settle.
"""

import re
from collections.abc import Mapping

NAMES = ("k_proj", "v_proj", "kv_a_proj_with_mqa")
_OF_A_LAYER = re.compile(
    rf"(?:^|\.)(?:layers|blocks|h)\.(\d{{1,4}})\.(?:\w+\.)*({'|'.join(NAMES)})\.weight(?:_packed)?\Z"
)
# Parts beside the decoder's own layers, and attention to something else than the text.
_BESIDE = re.compile(r"vis|audio|encoder|tower|talker|speech|cross|indexer|mtp|draft|perceiver|resampler|qformer")
_FLAT = 1  # columns of what bitsandbytes packs: its rows say nothing

Rows = Mapping[str, int]  # "3.k_proj" → rows


def rows_of(name: str, shape: tuple[int, ...]) -> tuple[str, int] | None:
    """A layer's matrix and its rows; None for any other tensor.

    Packed inputs leave the rows as they are; where outputs are packed (GPTQ's and AWQ's qweight) nothing is said.

    >>> rows_of("language_model.model.layers.3.self_attn.k_proj.weight", (1024, 4096))
    ('3.k_proj', 1024)
    >>> rows_of("vision_tower.layers.3.self_attn.k_proj.weight", (1024, 1024))
    """
    found = _OF_A_LAYER.search(name)
    if found is None or len(shape) != 2 or shape[1] == _FLAT or _BESIDE.search(name):
        return None
    return f"{int(found[1])}.{found[2]}", shape[0]
