"""The exactness theorem: whatever the draft, the emitted tokens have the target's distribution."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas.sampling import (
    acceptance_rate,
    emitted_distribution,
    residual_distribution,
    speculative_round,
)
from kvcalc.formulas.speculative import tokens_per_pass, tokens_per_pass_measured

weights = st.floats(0, 1).map(lambda x: 0 if x < 0.2 else x)  # zeros on purpose: the supports may differ


@st.composite
def pairs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    size = draw(st.integers(1, 12))
    rows = st.lists(weights, min_size=size, max_size=size).filter(any)
    p, q = np.array(draw(rows)), np.array(draw(rows))
    return p / p.sum(), q / q.sum()


@given(pairs())
def test_emitted_is_the_target(pair: tuple[np.ndarray, np.ndarray]) -> None:
    p, q = pair
    assert emitted_distribution(p, q) == pytest.approx(p, abs=1e-12)


@given(pairs())
def test_acceptance_is_one_minus_total_variation(pair: tuple[np.ndarray, np.ndarray]) -> None:
    p, q = pair
    assert acceptance_rate(p, q) == pytest.approx(1 - np.abs(p - q).sum() / 2)
    assert acceptance_rate(p, q) == pytest.approx(acceptance_rate(q, p))


@given(pairs())
def test_residual_is_a_distribution_on_what_the_draft_underproposes(pair: tuple[np.ndarray, np.ndarray]) -> None:
    p, q = pair
    residual = residual_distribution(p, q)
    assert residual.sum() == pytest.approx(1)
    if acceptance_rate(p, q) < 1 - 1e-9:
        assert (residual[p < q - 1e-12] == 0).all()


@given(pairs(), st.integers(1, 4), st.booleans(), st.integers(0, 2**32))
def test_a_round_is_well_formed(pair: tuple[np.ndarray, np.ndarray], gamma: int, bonus: bool, seed: int) -> None:
    p, q = pair
    tokens = speculative_round([p] * (gamma + bonus), [q] * gamma, np.random.default_rng(seed))
    assert 1 <= len(tokens) <= gamma + bonus
    assert all(p[token] > 0 for token in tokens), "the target never says this"


P = np.array([[0.5, 0.3, 0.2, 0.0], [0.1, 0.1, 0.1, 0.7], [0.25, 0.25, 0.25, 0.25]])
Q = np.array([[0.2, 0.2, 0.2, 0.4], [0.3, 0.3, 0.3, 0.1]])
ROUNDS = 6000


@pytest.fixture(scope="module")
def rounds() -> list[list[int]]:
    rng = np.random.default_rng(7)
    return [speculative_round(P, Q, rng) for _ in range(ROUNDS)]


@pytest.mark.parametrize("position", range(3))
def test_every_position_follows_the_target(rounds: list[list[int]], position: int) -> None:
    """Of the rounds that reach a position, the tokens there have its distribution, within four standard errors."""
    tokens = [emitted[position] for emitted in rounds if len(emitted) > position]
    assert len(tokens) > 500
    for token, probability in enumerate(P[position]):
        error = math.sqrt(probability * (1 - probability) / len(tokens))
        assert tokens.count(token) / len(tokens) == pytest.approx(probability, abs=4 * error)


def test_the_mean_length_is_the_formula(rounds: list[list[int]]) -> None:
    lengths = np.array([len(emitted) for emitted in rounds])
    want = tokens_per_pass_measured(acceptance_rate(P[:2], Q).tolist())
    assert lengths.mean() == pytest.approx(want, abs=4 * lengths.std() / math.sqrt(ROUNDS))


def test_equal_rows_give_the_constant_rate() -> None:
    p, q, rng = [0.6, 0.4], [0.9, 0.1], np.random.default_rng(3)
    lengths = np.array([len(speculative_round([p] * 4, [q] * 3, rng)) for _ in range(3000)])
    want = tokens_per_pass(acceptance_rate(p, q), 3)
    assert lengths.mean() == pytest.approx(want, abs=4 * lengths.std() / math.sqrt(len(lengths)))


def test_a_perfect_draft_is_always_accepted() -> None:
    rng = np.random.default_rng(0)
    assert {len(speculative_round([P[0]] * 5, [P[0]] * 4, rng)) for _ in range(100)} == {5}


def test_a_draft_of_other_tokens_is_never_accepted() -> None:
    rng = np.random.default_rng(0)
    tokens = [speculative_round([[1, 0], [1, 0]], [[0, 1]], rng) for _ in range(50)]
    assert tokens == [[0]] * 50
    assert acceptance_rate([1, 0], [0, 1]) == 0


def test_many_positions_at_once() -> None:
    assert acceptance_rate(P[:2], Q) == pytest.approx([0.6, 0.4])
    assert emitted_distribution(P[:2], Q) == pytest.approx(P[:2])


def test_float32_softmax_is_taken_as_it_is() -> None:
    logits = np.random.default_rng(0).normal(size=(2, 50_000)).astype(np.float32) * 3
    p, q = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
    assert 0 < acceptance_rate(p, q) < 1
    assert emitted_distribution(p, q) == pytest.approx(p, abs=1e-6)


@pytest.mark.parametrize(
    ("p", "q"),
    [
        ([0.5, 0.6], [0.5, 0.5]),  # sums to 1.1
        ([1.5, -0.5], [0.5, 0.5]),
        ([float("nan"), 1], [0.5, 0.5]),
        ([1.0], [0.5, 0.5]),  # another vocabulary
        ([[0.5, 0.5]] * 4, [[0.5, 0.5]] * 2),  # two rows too many
        ([[0.5, 0.5]], [[0.5, 0.5]] * 2),
    ],
)
def test_what_is_no_distribution_is_refused(p: list[Any], q: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"distribution|shape"):
        speculative_round(p, q, np.random.default_rng(0))
