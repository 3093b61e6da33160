"""The largest batch under a target is found, whatever the time's course."""

from hypothesis import given
from hypothesis import strategies as st

from kvcalc.timing.serving import largest_batch


@given(st.lists(st.integers(0, 5), min_size=1, max_size=70), st.integers(0, 120), st.integers(1, 80))
def test_it_is_the_last_batch_that_keeps_the_target(steps: list[int], target: int, most: int) -> None:
    def time_of(batch: int) -> float:
        return float(sum(steps[:batch]) + max(0, batch - len(steps)))

    kept = [batch for batch in range(1, most + 1) if time_of(batch) <= target]
    assert largest_batch(time_of, target, most) == max(kept, default=None)
