"""`kvcalc speculate`: tokens per pass, speed-up, the best draft length, and how the gain shrinks with the batch."""

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance, range_of, usd_per_million
from kvcalc.answers.question import Question, stored_as
from kvcalc.answers.serving_working import serving_working
from kvcalc.answers.speculate.choice import chosen_acceptance, chosen_drafter
from kvcalc.answers.speculate.drafter import Drafter
from kvcalc.answers.speculate.memory import deploy_both, deploy_draft, draft_memory
from kvcalc.answers.speculate.rounds import Rounds
from kvcalc.answers.speculate.rows import at_capacity, by_batch, by_gamma, pays_from, stops_paying
from kvcalc.answers.speculate.settings import SpeculateSettings
from kvcalc.answers.speculate.working import speculate_working
from kvcalc.answers.subject import inputs_of, subject
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.counting.arrays import single
from kvcalc.errors import KvcalcError
from kvcalc.results.data import data_of
from kvcalc.results.speculate import SpeculateReport, SpeculateResult
from kvcalc.specs.base import Assumption, Source, replace
from kvcalc.units import format_seconds


def speculate(
    question: Question, settings: SpeculateSettings | None = None, with_working: bool = True
) -> SpeculateReport:
    """What drafting is worth on this deployment, at `--batch` (1 unless given) and by batch.

    `with_working`: and the figures behind `--explain`.
    """
    settings = settings or SpeculateSettings()
    question = _with_own_layers(question, settings.draft)
    plain = replace(question.deployment, num_speculative_tokens=0, acceptance=())
    target = Deployed(question._replace(deployment=plain))
    plain_speed = Performance(target)
    point = plain_speed.point
    batch, context = question.workload.batch or 1, point.mean_context
    found, assumed = chosen_drafter(target, settings)
    draft, placed = deploy_draft(target, found)
    gamma = settings.gamma or question.deployment.num_speculative_tokens or None
    acceptance, usual = chosen_acceptance(target, found, settings, gamma)
    rounds = Rounds(target, draft, found, acceptance, context)
    _require_within(rounds, gamma)
    best = rounds.best(batch)
    result = _result(rounds, batch, best if gamma is None else gamma, best, plain_speed)
    return SpeculateReport(
        inputs=inputs_of(
            target, batch=batch, context=context, **data_of(settings) | {"gamma": result.gamma, "draft": found.name}
        ),
        result=result,
        figures=(*speculate_working(rounds, result), *serving_working(plain_speed)) if with_working else (),
        assumptions=(
            *question.assumptions,
            *_assumed(target, result, question, settings),
            *point.assumptions,
            *assumed,
            *placed,
            *usual,
            *(() if plain_speed.step is None else plain_speed.step.assumptions),
            *unused(question, lambda other: speculate(other, settings, with_working=False).result),
        ),
        sources=_sources(target, found),
        warnings=plain_speed.warnings,
    )


def _assumed(
    target: Deployed, found: SpeculateResult, question: Question, settings: SpeculateSettings
) -> tuple[Assumption, ...]:
    """Of the target; what a calibration changes is said of the speed-up, at the same draft length."""
    assumed = assumptions_of(target)
    if target.gpu.calibration is None:
        return assumed
    from kvcalc.answers.calibrate.both import with_figures

    def figures(plain: Deployed) -> str:
        asked = question._replace(gpu=plain.gpu)
        other = speculate(asked, replace(settings, gamma=found.gamma or None), with_working=False).result
        speedup = other.speedup if isinstance(other.speedup, int | float) else other.speedup.value
        return f"a speed-up of {speedup:.2f}, a plain step of {format_seconds(other.plain_step_s)}"

    return with_figures(assumed, target, figures)


def _with_own_layers(question: Question, draft: str | None) -> Question:
    """With the multi-token-prediction layers that a draft needs: most files of the type that is asked for lack them."""
    if draft is None or question.model.mtp or question.loaded is None or not question.loaded.mtp:
        return question
    return question._replace(model=stored_as(question.loaded, replace(question.deployment, draft=draft)))


def _require_within(rounds: Rounds, gamma: int | None) -> None:
    if gamma is not None and gamma > rounds.longest:
        raise KvcalcError(
            f"--gamma {gamma} is beyond the {rounds.longest} positions that acceptance or tree is given for",
            hint="give a value for each position, or one with --decay",
        )


def _sources(target: Deployed, found: Drafter) -> tuple[Source, ...]:
    draft = found.model.sources if found.kind == "model" and found.model else ()
    return (*target.model.sources, *draft, *target.gpu.sources.values())


def _result(rounds: Rounds, batch: int, gamma: int, best: int, plain: Performance) -> SpeculateResult:
    target, acceptance = rounds.target, rounds.acceptance
    at = rounds.at(batch, gamma)
    replicas = target.deployment.data_parallel_size
    both = deploy_both(target, rounds.drafter, gamma or 1)
    memory = draft_memory(target, both, plain.point.context)
    speed, plain_speed = replicas * batch / single(at.tpot_s), replicas * batch / single(at.plain_s)
    return SpeculateResult(
        **subject(target, verdict(both, plain.point)),
        engine=target.deployment.engine,
        draft=rounds.drafter.name,
        batch=batch,
        context=int(single(rounds.context)),
        gamma=gamma,
        tokens_per_pass=single(at.tokens),
        speedup=float(at.speedup) if target.replica.ideal else range_of(at.gain),
        best_gamma=best,
        acceptance_rate=acceptance.rate,
        decay=acceptance.decay,
        acceptance=acceptance.positions,
        draft_cost_ratio=single(rounds.draft_pass_s(batch) / at.plain_s),
        verify_cost_ratio=single(at.verify_s / at.plain_s),
        plain_step_s=single(at.plain_s),
        verify_s=single(at.verify_s),
        draft_s=single(at.draft_s),
        engine_s=single(at.engine_s),
        tpot_s=single(at.tpot_s),
        output_tokens_per_s=speed,
        usd_per_million_output_tokens=usd_per_million(target, speed),
        plain_output_tokens_per_s=plain_speed,
        plain_usd_per_million_output_tokens=usd_per_million(target, plain_speed),
        by_gamma=by_gamma(rounds, batch, max(gamma, best)),
        by_batch=by_batch(rounds, gamma, batch, memory.max_batch),
        stops_paying_at_batch=stops_paying(rounds, gamma),
        pays_from_acceptance=pays_from(rounds, batch, gamma),
        memory=memory,
        at_capacity=at_capacity(rounds, gamma, memory.max_batch, memory.max_batch_without),
        serving=plain.serving,
    )
