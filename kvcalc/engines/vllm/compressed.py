"""Compressed attention (DeepSeek-V4): five kinds of pages, packed side by side into one block.

vllm/models/deepseek_v4/attention.py and compressor.py, v1/attention/backends/mla/sparse_swa.py,
v1/core/kv_cache_planning.py (`_get_packed_kv_cache_groups`, `_approximate_gcd`), 0.33.
"""

from collections import Counter
from collections.abc import Sequence

from kvcalc.counting.cache import element_bytes
from kvcalc.engines.vllm.groups import Layer, LayerGroup
from kvcalc.engines.vllm.pages import Page, index_bytes
from kvcalc.specs.model import CompressedAttention

BLOCK = 256  # tokens of a page of compressed vectors
WINDOW_BLOCK = 64
STATE_BLOCK = {4: 4, 128: 8}  # tokens of a page of compressor state, so that it is about as large as a page of vectors
SHORT_RATIO = 4  # whose windows overlap: two states of twice the width
PACKED_ALIGNMENT, PLAIN_ALIGNMENT = 576, 512
SCALE_BYTES = 8


def compressed_pages(mixer: CompressedAttention, cache_dtype: str) -> list[Page]:
    """The window's vectors, the compressed vectors and index, and the states that compress them."""
    packed = element_bytes(cache_dtype) != 2
    align = PACKED_ALIGNMENT if packed else PLAIN_ALIGNMENT
    vector = _packed_vector(mixer) if packed else mixer.head_dim * 2
    found = [_page("sliding_latent", vector, WINDOW_BLOCK, align, window=mixer.window)]
    if not mixer.ratio:
        return found
    found.append(_page("latent", vector, BLOCK, align, per=mixer.ratio))
    found.append(_state(mixer.head_dim, mixer.ratio, align))
    if mixer.indexer is not None:
        found.append(_page("index", index_bytes(mixer.indexer), BLOCK, align, per=mixer.ratio))
        found.append(_state(mixer.indexer.head_dim, mixer.ratio, align))
    return found


def _packed_vector(mixer: CompressedAttention) -> int:
    """fp8 with a rotary part of 16 bits and its scales: 584 B of 512 elements."""
    return mixer.head_dim - mixer.rope_head_dim + mixer.rope_head_dim * 2 + SCALE_BYTES


def _page(kind: str, size: int, block: int, align: int, window: int | None = None, per: int = 1) -> Page:
    whole = -(-(block // per * size) // align) * align
    return Page.model_validate(
        {"kind": kind, "page_bytes": whole, "block_size": block, "window": window, "shape": (size, per)}
    )


def _state(width: int, ratio: int, align: int) -> Page:
    """Keys and scores, in float32, of the tokens that are still being compressed."""
    overlap = 2 if ratio == SHORT_RATIO else 1
    block = STATE_BLOCK.get(ratio, STATE_BLOCK[SHORT_RATIO])
    return _page("sliding_latent", 2 * overlap * width * 4, block, align, window=overlap * ratio)


def packed(layers: Sequence[Layer]) -> list[LayerGroup]:
    """Classes of pages that need the same blocks; a class whose sizes repeat evenly is dealt into groups.

    The class that mixes sizes evenly sets how often a pattern repeats in a group; larger classes are cut towards it.
    """
    classes: dict[tuple[object, ...], list[Layer]] = {}
    for index, page in layers:
        classes.setdefault(page.class_of, []).append((index, page))
    counts = {key: Counter(page.page_bytes for _, page in members) for key, members in classes.items()}
    even = {key: max(sizes.values()) for key, sizes in counts.items() if len(set(sizes.values())) == 1}
    least = max((repeats for key, repeats in even.items() if len(counts[key]) > 1), default=0)
    repeats = least_padding(list(even.values()), least) if least else None
    found: list[LayerGroup] = []
    for key, members in classes.items():
        number = -(-even[key] // repeats) if repeats and key in even else 1
        found.extend(_dealt(members, number))
    return found


def _dealt(members: list[Layer], number: int) -> list[LayerGroup]:
    by_size: dict[int, list[Layer]] = {}
    for layer in members:
        by_size.setdefault(layer[1].page_bytes, []).append(layer)
    patterns = list(zip(*by_size.values(), strict=False))
    if number == 1:
        return [tuple(members)]
    return [tuple(layer for pattern in patterns[start::number] for layer in pattern) for start in range(number)]


def least_padding(counts: Sequence[int], least: int) -> int:
    """The group size, at least `least`, that pads these counts the least; the larger of equals.

    >>> least_padding([43, 21, 20], 21)
    22
    """
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))
