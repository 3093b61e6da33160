"""Ranges of a budget, the phase that needs most, and whether an engine starts with it."""

import pytest

from kvcalc.engines.memory.budget import Activation, ByteRange, MemoryBudget
from kvcalc.engines.memory.loading import rotary_bytes
from kvcalc.specs.base import replace
from kvcalc.specs.model import ModelSpec
from kvcalc.units import GIB


def test_ranges_and_phases() -> None:
    assert ByteRange.around(10, 12, 5) == ByteRange(low=0, value=10, high=15)
    assert ByteRange.exactly(3).plus(ByteRange(low=1, value=2, high=3)) == ByteRange(low=4, value=5, high=6)
    peak = ByteRange.exactly(1)
    phases = [
        Activation(sampler=a, forward=b, encoder=c, peak=peak).phase
        for a, b, c in ((2, 1, 1), (1, 2, 1), (1, 1, 2), (2, 2, 2), (1, 2, 2))
    ]
    assert phases == ["sampler", "forward", "encoder", "sampler", "forward"]


@pytest.mark.parametrize(
    "changes, starts",
    [
        ({}, True),
        ({"pool": ByteRange(low=-1, value=0, high=1)}, False),  # nothing is left
        ({"initial_use": ByteRange.exactly(11)}, False),
        ({"initial_use": ByteRange.exactly(10)}, True),  # exactly full
        ({"graphs": ByteRange.exactly(11)}, False),  # beside the share
        ({"graphs": ByteRange.exactly(11), "graphs_charged": True}, True),
        ({"request_table": 6, "reserve": ByteRange.exactly(5)}, False),
        ({"request_table": 5, "reserve": ByteRange.exactly(5)}, True),
        ({"pool_given": True, "pool": ByteRange.exactly(50)}, True),  # 50 of weights beside it
        ({"pool_given": True, "pool": ByteRange.exactly(51)}, False),
        ({"pool_given": True, "pool": ByteRange.exactly(40), "initial_use": ByteRange.exactly(10)}, True),
        ({"pool_given": True, "pool": ByteRange.exactly(40), "initial_use": ByteRange.exactly(11)}, False),
        ({"pool_given": True, "pool": ByteRange.exactly(40), "non_torch": ByteRange.exactly(10)}, True),
        ({"pool_given": True, "pool": ByteRange.exactly(40), "non_torch": ByteRange.exactly(11)}, False),
        ({"pool": None}, False),
    ],
)
def test_an_engine_starts_where_the_card_holds_all(changes: dict[str, object], starts: bool) -> None:
    plain = MemoryBudget(
        engine="x", engine_version=None, total=100, requested=90, weights=50, pool=ByteRange(low=1, value=40, high=41)
    )
    assert replace(plain, **changes).starts_at("value") is starts


def test_a_rotary_table_is_as_long_as_the_model() -> None:
    # Llama-4-Scout: 10,485,760 positions of 128 elements in 16 bits, 2.5 GiB.
    scout = ModelSpec(name="x", family="x", hidden=5120, vocab=202048, groups=(), max_context=10_485_760, rope_dim=128)
    assert rotary_bytes(scout) == int(2.5 * GIB)
