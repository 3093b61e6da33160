"""Compressed attention (DeepSeek-V4): five kinds of pages, packed side by side into one block.

Source: vllm/models/deepseek_v4/attention.py and compressor.py, v1/attention/backends/mla/sparse_swa.py,
v1/core/kv_cache_planning.py (`_get_packed_kv_cache_groups`, `_approximate_gcd`), 0.33; v1/core/kv_cache_utils.py
(`_get_kv_cache_groups_uniform_groups`, `_get_kv_cache_config_deepseek_v4`, `_max_memory_usage_bytes_from_groups`),
0.22.1 to 0.28.0.

How a block is laid out changed twice:
    tuples   a slot for every size of page, as often as the longest group repeats it
    buckets  for every size of page, as many slots as the group that has the most of them
    packed   each group's pages one behind the other; the longest group is the block
Before `packed` a window's page was padded to the next size that the unbounded layers have.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from kvcalc.counting.cache import element_bytes
from kvcalc.engines.vllm.groups import Layer, PageGroup
from kvcalc.engines.vllm.pages import GROWS_WITHOUT_END, Page, index_bytes
from kvcalc.specs.base import replace
from kvcalc.specs.build import build
from kvcalc.specs.model import CompressedAttention

BLOCK = 256  # tokens of a page of compressed vectors
WINDOW_BLOCK = 64
STATE_BLOCK = {4: 4, 128: 8}  # tokens of a page of compressor state, so that it is about as large as a page of vectors
SHORT_RATIO = 4  # whose windows overlap: two states of twice the width
PACKED_ALIGNMENT, PLAIN_ALIGNMENT = 576, 512
SCALE_BYTES = 8

Classes = Mapping[tuple[object, ...], Sequence[Layer]]


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
    return build(Page, {"kind": kind, "page_bytes": whole, "block_size": block, "window": window, "shape": (size, per)})


def _state(width: int, ratio: int, align: int) -> Page:
    """Keys and scores, in float32, of the tokens that are still being compressed."""
    overlap = 2 if ratio == SHORT_RATIO else 1
    block = STATE_BLOCK.get(ratio, STATE_BLOCK[SHORT_RATIO])
    return _page("sliding_latent", 2 * overlap * width * 4, block, align, window=overlap * ratio)


def dealt(layers: Sequence[Layer], layout: str) -> list[PageGroup]:
    """Classes of pages that need the same blocks; a class whose sizes repeat evenly is dealt into groups."""
    classes: dict[tuple[object, ...], list[Layer]] = {}
    for index, page in layers if layout == "packed" else _padded(layers):
        classes.setdefault(page.class_of, []).append((index, page))
    return _packed(classes) if layout == "packed" else _tuples(classes)


def _padded(layers: Sequence[Layer]) -> list[Layer]:
    """A window's page is as large as the next page of the layers that grow without end."""
    sizes = sorted({page.page_bytes for _, page in layers if page.kind in GROWS_WITHOUT_END})

    def widened(page: Page) -> Page:
        size = next((size for size in sizes if size >= page.page_bytes), page.page_bytes)
        return page if page.kind in GROWS_WITHOUT_END else replace(page, page_bytes=size)

    return [(index, widened(page)) for index, page in layers]


def _tuples(classes: Classes) -> list[PageGroup]:
    """The unbounded layers are one group; windows are cut into groups that repeat about as often."""
    repeats = {key: max(_sizes(members).values()) for key, members in classes.items()}
    full = [key for key, members in classes.items() if members[0][1].kind in GROWS_WITHOUT_END]
    number = least_padding(list(repeats.values()), max((repeats[key] for key in full), default=1))
    found: list[PageGroup] = []
    for key, members in classes.items():
        found.extend(_dealt(members, 1 if key in full else -(-repeats[key] // number)))
    return found


def block_bytes(groups: Sequence[PageGroup], layout: str) -> int:
    """Bytes of one block of the pool that these groups share.

    Unit: bytes
    """
    if layout == "packed":
        return max((sum(page.page_bytes for _, page in group) for group in groups), default=0)
    counts = [_sizes(group) for group in groups]
    sizes = set().union(*counts)
    if layout == "buckets":
        return sum(size * max(count[size] for count in counts) for size in sizes)
    return sum(sizes) * max((max(count.values()) for count in counts if count), default=0)


def _sizes(members: Sequence[Layer]) -> Counter[int]:
    return Counter(page.page_bytes for _, page in members)


def _packed(classes: Classes) -> list[PageGroup]:
    """The class that mixes sizes evenly sets how often a pattern repeats in a group; larger ones are cut towards it."""
    counts = {key: _sizes(members) for key, members in classes.items()}
    even = {key: max(sizes.values()) for key, sizes in counts.items() if len(set(sizes.values())) == 1}
    least = max((repeats for key, repeats in even.items() if len(counts[key]) > 1), default=0)
    repeats = least_padding(list(even.values()), least) if least else None
    found: list[PageGroup] = []
    for key, members in classes.items():
        number = -(-even[key] // repeats) if repeats and key in even else 1
        found.extend(_dealt(members, number))
    return found


def _dealt(members: Sequence[Layer], number: int) -> list[PageGroup]:
    by_size: dict[int, list[Layer]] = {}
    for layer in members:
        by_size.setdefault(layer[1].page_bytes, []).append(layer)
    patterns = list(zip(*by_size.values(), strict=False))
    if number == 1:
        return [tuple(members)]
    return [tuple(layer for pattern in patterns[start::number] for layer in pattern) for start in range(number)]


def least_padding(counts: Sequence[int], least: int) -> int:
    """The group size, at least `least`, that pads these counts the least; the larger of equals.

    Unit: layers

    >>> least_padding([43, 21, 20], 21)
    22
    """
    return min(range(least, max(counts) + 1), key=lambda size: (sum(-count % size for count in counts), -size))
