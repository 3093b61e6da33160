"""Pages: references are counted, order is shuffled, writes to shared pages copy, windows give back."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.errors import KvcalcError
from kvcalc.executor.pages import DROPPED, PagePool, Pages, Sequence, pages_held


def make(pages: int = 64, page_size: int = 4, windows: tuple[int | None, ...] = (None,)) -> tuple[Pages, list[tuple]]:
    copied: list[tuple] = []
    pools = [PagePool(pages, seed) for seed in range(len(windows))]
    return Pages(page_size, pools, windows, lambda *page: copied.append(page)), copied


def test_no_sequence_lies_in_one_piece() -> None:
    pages, _ = make()
    table = pages.start(40).tables[0]
    assert table != sorted(table)
    assert len(set(table)) == 10


def test_a_full_pool_says_so() -> None:
    pages, _ = make(pages=2)
    sequence = pages.start(8)
    with pytest.raises(KvcalcError, match="all 2 pages"):
        pages.append(sequence)


def test_the_first_writer_copies_the_page_and_the_last_keeps_it() -> None:
    pages, copied = make()
    first = pages.start(6)  # one full page and half of another
    second = pages.fork(first)
    assert pages.pools[0].used == 2
    shared = first.tables[0][1]
    pages.append(second)
    assert copied == [(0, shared, second.tables[0][1])]
    assert second.tables[0][0] == first.tables[0][0]
    pages.append(first)
    assert len(copied) == 1
    assert first.tables[0][1] == shared
    pages.finish(second)
    assert pages.pools[0].used == 2


def test_a_full_last_page_is_shared_without_a_copy() -> None:
    pages, copied = make()
    first = pages.start(8)
    second = pages.fork(first)
    pages.append(second)
    assert copied == []
    assert second.tables[0][:2] == first.tables[0]


def test_a_window_gives_back_what_it_has_left() -> None:
    pages, _ = make(windows=(6,))
    sequence = pages.start()
    for _ in range(30):
        pages.append(sequence)
        assert pages.pools[0].used == pages_held(sequence.length, 4, 6)
    assert sequence.tables[0].count(DROPPED) == len(sequence.tables[0]) - pages.pools[0].used


@given(
    st.lists(st.tuples(st.sampled_from(["start", "append", "fork", "finish"]), st.integers(0, 9)), max_size=120),
    st.sampled_from([(None,), (5,), (None, 7)]),
)
def test_references_are_the_tables_that_hold_a_page(
    moves: list[tuple[str, int]], windows: tuple[int | None, ...]
) -> None:
    pages, _ = make(pages=400, windows=windows)
    alive: list[Sequence] = []
    for move, index in moves:
        if move == "start":
            alive.append(pages.start(index))
        elif alive:
            one = alive[index % len(alive)]
            if move == "append":
                pages.append(one)
            elif move == "fork":
                alive.append(pages.fork(one))
            else:
                pages.finish(one)
                alive = [other for other in alive if other is not one]
        for place, pool in enumerate(pages.pools):
            held = [page for one in alive for page in one.tables[place] if page != DROPPED]
            assert [held.count(page) for page in range(400)] == pool.references
            assert pool.used == len(set(held))
        for one in alive:
            last = [table[-1] for table in one.tables if table]
            assert DROPPED not in last


@given(st.integers(1, 500), st.sampled_from([1, 3, 16]), st.sampled_from([None, 1, 8, 50]))
def test_pages_held_are_those_with_a_token_that_the_last_one_sees(
    tokens: int, page_size: int, window: int | None
) -> None:
    first = 0 if window is None else max(0, tokens - window)
    assert pages_held(tokens, page_size, window) == len({token // page_size for token in range(first, tokens)})
