"""Money: the arithmetic of an hour."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import cost


@given(st.floats(0.1, 100), st.integers(1, 64), st.floats(1, 1e6))
def test_an_hour_of_tokens_costs_an_hour(price: float, gpus: int, tokens_per_s: float) -> None:
    millions = tokens_per_s * 3600 / 1e6
    assert cost.usd_per_million_tokens(price, gpus, tokens_per_s) * millions == pytest.approx(price * gpus)


def test_one_gpu_at_a_thousand_tokens_a_second() -> None:
    """3.6 million tokens an hour."""
    assert cost.usd_per_million_tokens(3.6, 1, 1000) == pytest.approx(1.0)


def test_a_request_pays_for_both_sides() -> None:
    assert cost.usd_per_request(1, 4, input_tokens=1_000_000, output_tokens=500_000) == 3
