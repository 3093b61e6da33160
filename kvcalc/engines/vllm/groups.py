"""Layers are put into groups that take blocks from one pool, so that every group's block is the same size.

Source: vllm/v1/core/kv_cache_planning.py (0.33): `get_kv_cache_groups`, `unify_kv_cache_spec_page_size`,
`_get_kv_cache_groups_uniform_page_size`.
"""

from collections.abc import Sequence
from fractions import Fraction

from kvcalc.engines.vllm.pages import Page
from kvcalc.specs.base import replace

Layer = tuple[int, Page]  # the layer's index (draft layers follow the last), and its page
PageGroup = tuple[Layer, ...]


def grouped(layers: Sequence[Layer], widest: Fraction) -> list[PageGroup]:
    """The groups of a whole model; a pipeline stage then keeps its own layers of each."""
    if not layers:
        return []
    if len({page.class_of for _, page in layers}) == 1:
        return [tuple(layers)]  # pages may differ in size: they are always taken together
    return split(unify(layers), widest)


def unify(layers: Sequence[Layer]) -> list[Layer]:
    """One page size for all: a smaller page holds more tokens if it divides the largest, else it is padded."""
    largest = max(page.page_bytes for _, page in layers)
    return [(index, _widened(page, largest)) for index, page in layers]


def _widened(page: Page, largest: int) -> Page:
    if page.page_bytes == largest:
        return page
    if page.block_size is None or largest % page.page_bytes:
        return replace(page, page_bytes=largest)
    return replace(page, page_bytes=largest, block_size=page.block_size * largest // page.page_bytes)


def split(layers: Sequence[Layer], widest: Fraction) -> list[PageGroup]:
    """Classes of like layers, cut into groups of one size; the last group of a class is padded.

    A group is as large as the smallest class, or as the largest where that is less than `widest` times the smallest.
    Layers are dealt in turn, so that every pipeline stage has its part of each group.
    """
    classes: dict[Page, list[Layer]] = {}
    for index, page in layers:
        classes.setdefault(page, []).append((index, page))
    sizes = [len(members) for members in classes.values()]
    size = max(sizes) if max(sizes) < min(sizes) * widest else min(sizes)
    found: list[PageGroup] = []
    for members in classes.values():
        number = -(-len(members) // size)
        found.extend(tuple(members[start::number]) for start in range(number))
    return found
