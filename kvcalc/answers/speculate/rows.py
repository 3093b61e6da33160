"""Drafting by draft length and by batch: rows of the report, where it stops paying, and what memory leaves of it."""

from bisect import bisect_left

from kvcalc.answers.speculate.acceptance import break_even
from kvcalc.answers.speculate.rounds import Rounds
from kvcalc.counting.arrays import single
from kvcalc.formulas import speculative as formulas
from kvcalc.results.speculate import AtCapacity, BatchRow, GammaRow
from kvcalc.specs.base import replace

SHOWN_GAMMAS = 8
LARGEST_BATCH = 2**16
BATCHES = tuple(2**i for i in range(11))


def by_gamma(rounds: Rounds, batch: int, most: int) -> tuple[GammaRow, ...]:
    """Draft lengths up to `most` and those that are usual, as far as acceptance is known."""
    last = min(max(SHOWN_GAMMAS, most), rounds.longest)
    return tuple(_gamma_row(rounds, batch, gamma) for gamma in range(1, last + 1))


def _gamma_row(rounds: Rounds, batch: int, gamma: int) -> GammaRow:
    at = rounds.at(batch, gamma)
    return GammaRow(
        gamma=gamma,
        drafted_tokens=rounds.drafter.tree.drafted(gamma),
        tokens_per_pass=single(at.tokens),
        verify_s=single(at.verify_s),
        draft_s=single(at.draft_s),
        speedup=single(at.speedup),
    )


def by_batch(rounds: Rounds, gamma: int, asked: int, largest: int | None) -> tuple[BatchRow, ...]:
    """Powers of two, the batch that was asked for, and the largest that fits."""
    batches = sorted({*BATCHES, asked, *([largest] if largest else [])})
    return tuple(_batch_row(rounds, gamma or 1, batch, largest) for batch in batches)


def _batch_row(rounds: Rounds, gamma: int, batch: int, largest: int | None) -> BatchRow:
    at, best = rounds.at(batch, gamma), rounds.best(batch)
    return BatchRow(
        batch=batch,
        speedup=single(at.speedup),
        verify_rows=int(formulas.verify_rows(batch, rounds.drafter.tree.drafted(gamma))),
        verify_cost_ratio=single(at.verify_s / at.plain_s),
        tpot_s=single(at.tpot_s),
        plain_tpot_s=single(at.plain_s),
        output_tokens_per_s=single(rounds.target.deployment.data_parallel_size * batch / at.tpot_s),
        best_gamma=best,
        best_speedup=single(rounds.at(batch, best).speedup),
        fits=largest is None or batch <= largest,
    )


def stops_paying(rounds: Rounds, gamma: int) -> int | None:
    """The batch from which on a round gains nothing. Of a mixture of experts the gain may dip and rise before."""
    import numpy as np

    batches = np.array([2.0**i for i in range(LARGEST_BATCH.bit_length())])
    paying = [int(batch) for batch in batches[rounds.at(batches, gamma or 1).speedup > 1]]
    if not paying:
        return 1
    low, high = max(paying), 2 * max(paying)
    if high > LARGEST_BATCH:
        return None
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=lambda batch: single(rounds.at(batch, gamma or 1).speedup) <= 1)


def pays_from(rounds: Rounds, batch: int, gamma: int) -> float | None:
    """The acceptance from which on a round of this batch gains; None: none does."""
    at, levels = rounds.at(batch, gamma or 1), rounds.drafter.tree.levels(gamma or 1)
    given = rounds.acceptance

    def speedup(rate: float) -> float:
        other = replace(given, rate=rate, positions=())
        return float(other.tokens_per_pass(levels) * at.plain_s / at.round_s)

    return break_even(speedup)


def at_capacity(rounds: Rounds, gamma: int, fitting: int | None, without: int | None) -> AtCapacity | None:
    """Tokens/s at the largest batch that fits beside the draft, and at the larger one that fits without it."""
    admitted = rounds.target.max_num_seqs
    if not fitting or not without:
        return None
    with_draft, alone = (min(n, admitted) if admitted else n for n in (fitting, without))
    replicas = rounds.target.deployment.data_parallel_size
    plain = replicas * alone / single(rounds.plain_s(alone))
    drafted = replicas * with_draft / single(rounds.at(with_draft, gamma or 1).tpot_s)
    return AtCapacity(
        plain_batch=alone,
        plain_output_tokens_per_s=plain,
        batch=with_draft,
        output_tokens_per_s=drafted,
        gain=drafted / plain,
    )
