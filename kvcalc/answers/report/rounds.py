"""Speculative rounds on this deployment: what a draft length is worth at an acceptance, and rounds drawn at random."""

from collections.abc import Iterator
from math import prod

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question
from kvcalc.answers.speculate.acceptance import from_rates
from kvcalc.answers.speculate.drafter import Drafter, Tree, drafter, usual_acceptance
from kvcalc.answers.speculate.memory import deploy_draft
from kvcalc.answers.speculate.rounds import Rounds
from kvcalc.results.report import DrawnRound, RoundsRow, SpeculativeRounds
from kvcalc.specs.base import replace

RATES = tuple(i / 20 for i in range(8, 20))  # 0.40 … 0.95
GAMMAS = range(1, 9)
ROUNDS, SEEDS = 12, 3
USUAL_DRAFT = "eagle-3"  # what engines ship for models without MTP layers


def draft_name(question: Question) -> str:
    """What drafts: as asked, else the model's own MTP layers, else the usual head."""
    return question.deployment.draft or ("mtp" if question.model.mtp else USUAL_DRAFT)


def rounds(question: Question) -> SpeculativeRounds:
    """Every acceptance and draft length at `--batch`, 1 unless given.

    Raises:
        KvcalcError: the draft cannot be deployed beside the model.
    """
    plain = replace(question.deployment, num_speculative_tokens=0)
    target = Deployed(question._replace(deployment=plain))
    point = Performance(target).point
    batch = question.workload.batch or 1
    found = drafter(target.model, draft_name(question), None, Tree())
    draft, _ = deploy_draft(target, found)
    usual, _ = usual_acceptance(target.model, found)
    here = Rounds(target, draft, found, from_rates([RATES[0]]), point.mean_context)
    return SpeculativeRounds(
        draft=found.name,
        batch=batch,
        context=point.mean_context,
        draft_cost_ratio=float(here.draft_pass_s(batch) / here.plain_s(batch)),
        usual_acceptance=usual.rate,
        rows=tuple(_rows(here, found, batch)),
        rounds=tuple(_drawn()),
    )


def _rows(here: Rounds, found: Drafter, batch: int) -> Iterator[RoundsRow]:
    """A round's time is the same at every acceptance: only its tokens differ."""
    times = {gamma: here.at(batch, gamma) for gamma in GAMMAS}
    for rate in RATES:
        accepted = from_rates([rate])
        for gamma, one in times.items():
            tokens = accepted.tokens_per_pass(found.tree.levels(gamma))
            yield RoundsRow(
                acceptance=rate,
                gamma=gamma,
                tokens_per_pass=tokens,
                speedup=float(tokens * one.plain_s / one.round_s),
                reach=tuple(prod([rate] * j) for j in range(1, gamma + 1)),
            )


def _drawn() -> Iterator[DrawnRound]:
    """Each draft token accepted by itself, until the first that is not."""
    from random import Random

    for seed in range(SEEDS):
        random = Random(seed)
        draws = [[random.random() for _ in GAMMAS] for _ in range(ROUNDS)]
        for rate in RATES:
            for gamma in GAMMAS:
                for number, draw in enumerate(draws, 1):
                    accepted = next((i for i, one in enumerate(draw[:gamma]) if one >= rate), gamma)
                    yield DrawnRound(acceptance=rate, gamma=gamma, seed=seed, round=number, accepted=accepted)
