"""Paging: less than a block of waste, and sharing that counts as an allocator counts."""

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import paging

tokens = st.integers(1, 10**9)
block_sizes = st.integers(1, 512)


@given(tokens, block_sizes)
def test_waste_is_less_than_a_block(live: int, block_size: int) -> None:
    slots = paging.paged_slots(live, block_size)
    assert slots == paging.blocks_for_tokens(live, block_size) * block_size
    assert slots - live == paging.wasted_slots(live, block_size) <= paging.max_wasted_slots(block_size)
    assert slots - block_size < live


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(1, 12))
def test_copy_on_write_as_a_reference_counter_sees_it(prompt: int, block_size: int, samples: int) -> None:
    """A small allocator: block tables, reference counts, and a copy when a written block is shared."""
    references: dict[int, int] = {}
    tables = [list(range(-(-prompt // block_size))) for _ in range(samples)]
    for table in tables:
        for block in table:
            references[block] = references.get(block, 0) + 1
    copies, counts = 0, [len(references)]
    for table in tables:
        if prompt % block_size == 0:
            table.append(len(references))
            references[table[-1]] = 1
        elif references[table[-1]] > 1:
            copies += 1
            references[table[-1]] -= 1
            table[-1] = len(references)
            references[table[-1]] = 1
        counts.append(len(references))
    assert paging.blocks_after_each_write(prompt, block_size, samples) == counts
    assert paging.shared_blocks_after_writes(prompt, block_size, samples) == counts[-1]
    assert paging.copies_on_write(prompt, block_size, samples) == copies


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(1, 12), st.integers(1, 500))
def test_sharing_never_takes_more(prompt: int, block_size: int, samples: int, written: int) -> None:
    apart = samples * paging.blocks_for_tokens(prompt + written, block_size)
    together = paging.shared_blocks_after_writes(prompt, block_size, samples, written)
    assert together <= apart
    assert (together == apart) == (samples == 1 or prompt < block_size)
    assert paging.blocks_for_tokens(prompt, block_size) <= paging.unshared_blocks(prompt, block_size, samples)


@given(st.lists(st.integers(1, 8192), min_size=1, max_size=50), block_sizes)
def test_paging_never_holds_more_than_reservation_of_whole_blocks(live: list[int], block_size: int) -> None:
    longest = paging.paged_slots(8192, block_size)
    paged = sum(paging.paged_slots(one, block_size) for one in live)
    assert sum(live) <= paged <= paging.reserved_slots(len(live), longest)
    assert 0 < paging.used_share(sum(live), paged) <= 1
