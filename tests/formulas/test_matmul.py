"""B*: at the threshold a matmul's intensity is the ridge, and only wide matrices have one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import matmul

sides = st.integers(1, 10**5)
ridges = st.floats(1, 2000)
sizes = st.sampled_from([0.5, 1, 2, 4])


@given(ridges, sides, sides, sizes, sizes)
def test_at_the_threshold_the_intensity_is_the_ridge(
    ridge: float, d: int, f: int, weight_size: float, activation_size: float
) -> None:
    rows = matmul.matmul_threshold_rows(ridge, d, f, weight_size, activation_size)
    if rows is None:
        many: float = 10**12  # however many rows
        flops, moved = matmul.matmul_flops(many, d, f), matmul.matmul_bytes(many, d, f, weight_size, activation_size)
        assert flops / moved <= ridge * (1 + 1e-6)
    else:
        flops, moved = matmul.matmul_flops(rows, d, f), matmul.matmul_bytes(rows, d, f, weight_size, activation_size)
        assert flops / moved == pytest.approx(ridge, rel=1e-6)


@given(ridges, sides, sides)
def test_none_exactly_where_the_matrix_is_too_narrow(ridge: float, d: int, f: int) -> None:
    assert (matmul.matmul_threshold_rows(ridge, d, f) is None) == (2 * d * f <= ridge * (d + f) * 2)


@given(ridges)
def test_wide_matrices_approach_the_ridge_from_above(ridge: float) -> None:
    rows = matmul.matmul_threshold_rows(ridge, 10**9, 10**9)
    assert rows is not None
    assert ridge < rows == pytest.approx(ridge, rel=1e-4)


def test_int4_weights_need_a_quarter_of_the_rows_when_wide() -> None:
    full = matmul.matmul_threshold_rows(295, 10**8, 10**8, bytes_per_weight=2)
    assert full is not None
    assert matmul.matmul_threshold_rows(295, 10**8, 10**8, bytes_per_weight=0.5) == pytest.approx(full / 4)
