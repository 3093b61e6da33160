"""The allocator's invariants under random operations, and its counts against the closed forms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.answers.simulate.sharing import beams_of, samples_of
from kvcalc.errors import KvcalcError
from kvcalc.formulas.paging import copies_on_write, shared_blocks_after_writes, unshared_blocks
from kvcalc.simulator.allocator import BlockAllocator
from kvcalc.simulator.contiguous import Buddies

OPERATIONS = st.lists(st.tuples(st.sampled_from("sfae"), st.integers(0, 7), st.integers(1, 40)), max_size=80)


@given(OPERATIONS, st.integers(1, 16), st.integers(1, 30))
def test_allocator_invariants(operations, size, blocks):
    pool, fresh = BlockAllocator(blocks, size), iter(range(10**6))
    for what, which, tokens in operations:
        live = sorted(pool.tables)
        one = live[which % len(live)] if live else None
        try:
            if what == "s":
                pool.start(next(fresh), tokens)
            elif one is None:
                continue
            elif what == "f":
                pool.fork(one, next(fresh))
            elif what == "a":
                pool.append(one)
            else:
                pool.end(one)
        except KvcalcError:
            assert not pool.free
            return
        held = [block for table in pool.tables.values() for block in table]
        assert [held.count(block) for block in range(blocks)] == pool.refs
        assert sorted([*set(held), *pool.free]) == list(range(blocks))  # each is held or free, once
        for sequence, table in pool.tables.items():
            assert len(table) == -(-pool.tokens[sequence] // size)
            assert len(set(table)) == len(table)


@given(st.integers(1, 300), st.integers(1, 16), st.integers(1, 6))
def test_samples_are_the_closed_forms(prompt, size, samples):
    found = samples_of(prompt, 1, size, samples)
    assert found.blocks_unshared == unshared_blocks(prompt, size, samples)
    assert found.copies_on_write == copies_on_write(prompt, size, samples)
    assert found.blocks_after_first_tokens == shared_blocks_after_writes(prompt, size, samples)


def test_the_lessons_samples():
    found = samples_of(100, 1, 16, 3)
    assert (found.blocks_unshared, found.blocks_shared, found.blocks_after_first_tokens) == (21, 7, 9)


@given(st.integers(1, 100), st.integers(1, 40), st.integers(1, 16), st.integers(1, 5))
def test_beams_never_hold_more_than_sequences_of_their_own(prompt, output, size, width):
    found = beams_of(prompt, output, size, width)
    assert -(-(prompt + output) // size) <= found.most_blocks <= found.most_blocks_unshared


@given(st.integers(1, 500), st.lists(st.tuples(st.booleans(), st.integers(1, 120)), max_size=60))
def test_buddies_never_overlap_and_come_back(slots, operations):
    pool, held = Buddies(slots), []
    for give_back, tokens in operations:
        if give_back and held:
            pool.release(held.pop(tokens % len(held)))
            continue
        region = pool.allocate(tokens)
        if region is None:
            continue
        start, size = region
        assert size >= tokens
        assert size & (size - 1) == 0
        assert 0 <= start <= start + size <= slots
        assert all(start + size <= a or a + b <= start for a, b in held)
        held.append(region)
        assert pool.free == slots - sum(b for _, b in held)
    for region in held:
        pool.release(region)
    assert pool.free == slots
    largest = 1 << (slots.bit_length() - 1)
    assert pool.allocate(largest) is not None  # joined again


def test_no_block_is_free():
    pool = BlockAllocator(1, 16)
    pool.start(0, 16)
    with pytest.raises(KvcalcError, match="no block"):
        pool.append(0)
