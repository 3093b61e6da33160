"""Speculative decoding: how many tokens one pass of the target gives, and what that is worth."""

from collections.abc import Sequence
from math import prod


def tokens_per_pass(alpha: float, gamma: int, decay: float = 1.0) -> float:
    """Expected tokens of one target pass: the accepted drafts before the first rejection, and one more.

    With `decay` 1 it is (1 - alpha^(gamma + 1)) / (1 - alpha). Otherwise the i-th draft token, given that all before
    it were accepted, is accepted with probability alpha · decay^(i - 1), as measured drafts do.

    Args:
        alpha: Probability that the first draft token is accepted.
        gamma: Draft tokens per pass, a whole number.
        decay: Factor from one position to the next.

    Formula: sum(alpha ** j * decay ** (j * (j - 1) / 2) for j in range(gamma + 1))
    Unit: tokens
    Source: Leviathan et al. 2023, equation 1; the tail-sum of P(accepted >= j) for any decay

    >>> round(tokens_per_pass(alpha=0.8, gamma=4), 4)
    3.3616
    """
    total: float = sum(alpha**j * decay ** (j * (j - 1) / 2) for j in range(gamma + 1))
    return total


def tokens_per_pass_measured(acceptance: Sequence[float]) -> float:
    """Expected tokens of one target pass from acceptance rates measured position by position.

    Args:
        acceptance: Probability that draft token i is accepted, given that all before it were; one for each position.

    Unit: tokens
    Source: Leviathan et al. 2023, equation 1, without its assumption of equal rates

    >>> round(tokens_per_pass_measured([0.8, 0.7, 0.5]), 2)
    2.64
    """
    return 1 + sum(prod(acceptance[:j]) for j in range(1, len(acceptance) + 1))


def branch_acceptance(alpha: float, width: float) -> float:
    """Probability that at least one of several draft candidates for a position is accepted.

    It takes the candidates as independent, which flatters wide trees: they compete for the same probability.

    Args:
        alpha: Probability that one candidate is accepted.
        width: Candidates for the position.

    Formula: 1 - (1 - alpha) ** width
    Unit: 1
    Source: Miao et al. 2024 (SpecInfer), section 4, candidates taken as independent

    >>> branch_acceptance(alpha=0.5, width=2)
    0.75
    """
    missed: float = (1 - alpha) ** width
    return 1 - missed


def tree_nodes(widths: Sequence[int]) -> int:
    """Draft tokens in a full tree; a target pass verifies one row more.

    Args:
        widths: Candidates that each node of a level has, level by level; a chain is all ones.

    Unit: tokens
    Source: Miao et al. 2024 (SpecInfer), section 4; Cai et al. 2024 (Medusa), section 2.1.2

    >>> tree_nodes([4, 2, 1]), tree_nodes([1, 1, 1])
    (20, 3)
    """
    return sum(prod(widths[:level]) for level in range(1, len(widths) + 1))


def speculative_speedup(
    tokens_per_pass: float, gamma: float, draft_cost_ratio: float, verify_cost_ratio: float = 1.0
) -> float:
    """Speed-up over plain decoding: the tokens of a round over its cost in plain steps.

    Args:
        tokens_per_pass: Expected tokens of one target pass.
        gamma: Draft tokens per pass.
        draft_cost_ratio: Time of one draft step over that of one plain target step (c).
        verify_cost_ratio: Time of the verify pass over that of one plain target step; 1 while memory-bound.

    Formula: tokens_per_pass / (verify_cost_ratio + gamma * draft_cost_ratio)
    Unit: x
    Source: Leviathan et al. 2023, theorem 3.8

    >>> round(speculative_speedup(tokens_per_pass(alpha=0.8, gamma=5), gamma=5, draft_cost_ratio=0.15), 2)
    2.11
    """
    return tokens_per_pass / (verify_cost_ratio + gamma * draft_cost_ratio)


def best_draft_length(alpha: float, draft_cost_ratio: float, decay: float = 1.0, longest: int = 64) -> int:
    """The draft length with the greatest speed-up; 0 where speculation does not pay. The shortest among equals.

    Args:
        alpha: Probability that the first draft token is accepted.
        draft_cost_ratio: Time of one draft step over that of one target step.
        decay: Factor from one position's acceptance to the next.
        longest: Longest draft to try.

    Unit: tokens
    Source: Leviathan et al. 2023, section 3.5

    >>> best_draft_length(alpha=0.8, draft_cost_ratio=0.15), best_draft_length(alpha=0.1, draft_cost_ratio=0.2)
    (5, 0)
    """
    lengths = range(longest + 1)
    return max(lengths, key=lambda n: speculative_speedup(tokens_per_pass(alpha, n, decay), n, draft_cost_ratio))


def verify_rows(batch: float, gamma: float) -> float:
    """Rows of the verify pass: every draft token of every sequence, and one position more.

    Args:
        batch: Sequences.
        gamma: Draft tokens per sequence.

    Formula: batch * (gamma + 1)
    Unit: rows
    Source: Leviathan et al. 2023, section 2.3

    >>> verify_rows(batch=64, gamma=4)
    320
    """
    return batch * (gamma + 1)


def draft_cost_ratio(draft_step_time_s: float, target_step_time_s: float) -> float:
    """c: what one draft step costs in target steps. At batch 1 the weight bytes stand for the times.

    Args:
        draft_step_time_s: Time of one step of the draft model (or its weight bytes).
        target_step_time_s: Time of one plain step of the target (or its weight bytes).

    Formula: draft_step_time_s / target_step_time_s
    Unit: 1
    Source: Leviathan et al. 2023, definition 3.7

    >>> round(draft_cost_ratio(draft_step_time_s=1.24, target_step_time_s=8.03), 2)
    0.15
    """
    return draft_step_time_s / target_step_time_s
