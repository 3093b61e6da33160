"""Speculation: the closed form, the best length, and what decay and trees do."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.formulas import speculative as spec

rates = st.floats(0, 1)
lengths = st.integers(0, 32)


@given(st.floats(0, 0.999), lengths)
def test_constant_acceptance_is_the_geometric_sum(alpha: float, gamma: int) -> None:
    assert spec.tokens_per_pass(alpha, gamma) == pytest.approx((1 - alpha ** (gamma + 1)) / (1 - alpha), rel=1e-9)


@given(rates, lengths, st.floats(0.5, 1))
def test_tokens_stay_between_one_and_all(alpha: float, gamma: int, decay: float) -> None:
    tokens = spec.tokens_per_pass(alpha, gamma, decay)
    assert 1 <= tokens <= gamma + 1
    assert tokens <= spec.tokens_per_pass(alpha, gamma)
    assert tokens <= spec.tokens_per_pass(alpha, gamma + 1, decay)


@given(rates, lengths, st.floats(0.5, 1))
def test_decay_is_the_measured_form_with_falling_rates(alpha: float, gamma: int, decay: float) -> None:
    falling = [alpha * decay**i for i in range(gamma)]
    assert spec.tokens_per_pass_measured(falling) == pytest.approx(spec.tokens_per_pass(alpha, gamma, decay))


def test_tokens_per_pass_is_what_drawing_gives() -> None:
    """Lesson 12, section 5: 200,000 rounds of four drafts at 0.8."""
    accepted = np.random.default_rng(0).random((200_000, 4)) < 0.8
    tokens = np.where(accepted.all(axis=1), 4, accepted.argmin(axis=1)) + 1
    assert spec.tokens_per_pass(0.8, 4) == pytest.approx(tokens.mean(), abs=4 * tokens.std() / math.sqrt(len(tokens)))


@given(rates, st.floats(0.001, 1), st.floats(0.5, 1))
def test_no_length_beats_the_best(alpha: float, cost: float, decay: float) -> None:
    def speedup(gamma: int) -> float:
        return spec.speculative_speedup(spec.tokens_per_pass(alpha, gamma, decay), gamma, cost)

    best = spec.best_draft_length(alpha, cost, decay, longest=32)
    assert speedup(best) == max(speedup(gamma) for gamma in range(33))
    assert speedup(best) >= 1


@given(rates, st.floats(0.001, 1))
def test_speculation_pays_exactly_when_alpha_exceeds_the_cost(alpha: float, cost: float) -> None:
    """Leviathan et al. 2023, corollary 3.9."""
    if abs(alpha - cost) > 1e-9:
        assert (spec.best_draft_length(alpha, cost) > 0) == (alpha > cost)


def test_a_costlier_verify_pass_costs_what_it_costs() -> None:
    assert spec.speculative_speedup(3, 4, 0.1, verify_cost_ratio=2) == pytest.approx(3 / 2.4)


@given(rates, st.integers(1, 16))
def test_more_candidates_help_and_less_and_less(alpha: float, width: int) -> None:
    one, more, most = (spec.branch_acceptance(alpha, width + i) for i in range(3))
    assert alpha - 1e-12 <= one <= more <= most <= 1
    assert more - one >= most - more - 1e-12


@given(st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_tree_nodes_are_those_of_the_grown_tree(widths: list[int]) -> None:
    level: list[tuple[int, ...]] = [()]
    nodes = 0
    for width in widths:
        level = [(*path, child) for path in level for child in range(width)]
        nodes += len(level)
    assert spec.tree_nodes(widths) == nodes


@given(st.integers(1, 512), lengths)
def test_verify_rows(batch: int, gamma: int) -> None:
    assert spec.verify_rows(batch, gamma) == sum(gamma + 1 for _ in range(batch))
