"""Groups of layers that share a pool."""

from collections import Counter
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.engines.vllm.compressed import dealt, least_padding
from kvcalc.engines.vllm.groups import grouped, split, unify
from kvcalc.engines.vllm.pages import Page
from kvcalc.specs.build import build

WIDEST = Fraction(3, 2)


def pages(kind: str, count: int, page_bytes: int, block_size: int | None = 16, window: int | None = None) -> list[Page]:
    fields = {
        "kind": kind,
        "page_bytes": page_bytes,
        "block_size": block_size,
        "window": window,
        "shape": (page_bytes,),
    }
    return [build(Page, fields)] * count


def layers(*classes: list[Page]) -> list[tuple[int, Page]]:
    return list(enumerate(page for found in classes for page in found))


def test_equal_needs_are_one_group_whatever_their_sizes() -> None:
    # an index beside its latent; layers with unlike numbers of heads
    assert len(grouped(layers(pages("latent", 61, 73728, 64), pages("index", 61, 8448, 64)), WIDEST)) == 1


def test_the_smallest_class_sets_the_group_unless_another_is_hardly_larger() -> None:
    # vLLM's own example: 12 windowed and 13 full layers become 13 and 13, not 12 and 24
    sizes = [len(group) for group in split(layers(pages("sliding", 12, 64, window=128), pages("full", 13, 64)), WIDEST)]
    assert sizes == [12, 13]
    sizes = [len(group) for group in split(layers(pages("sliding", 52, 64, window=128), pages("full", 10, 64)), WIDEST)]
    assert sizes == [9, 9, 9, 9, 8, 8, 10]


def test_a_smaller_page_holds_more_tokens_or_is_padded() -> None:
    found = unify(layers(pages("sliding", 1, 262144, window=1024), pages("full", 1, 131072), pages("full", 1, 100000)))
    assert [(page.page_bytes, page.block_size) for _, page in found] == [(262144, 16), (262144, 32), (262144, 16)]


def test_a_state_is_padded() -> None:
    found = unify(layers(pages("full", 1, 4096), pages("state", 1, 2048, None)))
    assert found[1][1].page_bytes == 4096


@given(st.lists(st.integers(1, 60), min_size=2, max_size=4), st.sampled_from([Fraction(1), Fraction(5, 4), WIDEST]))
def test_every_layer_is_in_one_group_and_none_is_wider_than_the_rule(counts: list[int], widest: Fraction) -> None:
    every = layers(*(pages("sliding", count, 64, window=128 * (n + 1)) for n, count in enumerate(counts)))
    found = split(every, widest)
    assert Counter(index for group in found for index, _ in group) == Counter(range(len(every)))
    assert max(len(group) for group in found) <= max(min(counts), int(min(counts) * widest))


def test_packed_pages() -> None:
    # DeepSeek-V4-Flash: 43 windows, 21 layers of ratio 4 with an index, 20 of ratio 128; the planner's groups
    assert least_padding([43, 21, 20], 21) == 22
    found = dealt(
        layers(
            pages("latent", 21, 37440, 256), pages("index", 21, 8640, 256), pages("latent", 20, 1728, 256),
            pages("sliding_latent", 43, 37440, 64, 128),
            pages("sliding_latent", 21, 32832, 4, 8), pages("sliding_latent", 21, 8640, 4, 8),
            pages("sliding_latent", 20, 32832, 8, 128),
        ),
        "packed",
    )  # fmt: skip
    assert sorted(len(group) for group in found) == [20, 21, 22, 42, 62]
