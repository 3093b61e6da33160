"""`kvcalc speculate`: tokens per pass, speed-up, the best draft length, and how the gain shrinks with the batch."""

from bisect import bisect_left
from typing import Annotated

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.drafts import as_served
from kvcalc.answers.echo import deployment_inputs
from kvcalc.answers.explain import explain
from kvcalc.answers.performance import Performance, range_of, usd_per_million
from kvcalc.answers.question import Question
from kvcalc.answers.speculate.acceptance import Acceptance, break_even, from_files, from_lengths, from_rates
from kvcalc.answers.speculate.drafter import Drafter, Tree, drafter, usual_acceptance
from kvcalc.answers.speculate.memory import deploy_both, deploy_draft, draft_memory
from kvcalc.answers.speculate.rounds import Rounds
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.errors import KvcalcError
from kvcalc.formulas import speculative as formulas
from kvcalc.results.base import Figure
from kvcalc.results.data import data_of
from kvcalc.results.speculate import AtCapacity, BatchRow, GammaRow, SpeculateReport, SpeculateResult
from kvcalc.specs.base import Assumption, Frozen, replace
from kvcalc.specs.constraints import Checked, FromText, Within
from kvcalc.specs.deployment import count, number
from kvcalc.units import parse_count, parse_number

SHOWN_GAMMAS = 8
LARGEST_BATCH = 2**16
BATCHES = tuple(2**i for i in range(11))


MOST_WIDTHS = 16


def _few(widths: tuple[int, ...]) -> tuple[int, ...]:
    if len(widths) > MOST_WIDTHS:
        raise ValueError(f"{len(widths)} widths are more than {MOST_WIDTHS}")
    return widths


Rate = Annotated[float, Within(ge=0, le=1)]
Width = Annotated[int, Within(ge=1, le=1024)]


class SpeculateSettings(Frozen):
    """What `speculate` takes beside the flags of every command."""

    draft: str | None = None
    draft_cost: Annotated[float | None, Within(ge=0, le=1000), number("--draft-cost")] = None
    draft_quantization: str | None = None
    gamma: Annotated[int | None, Within(ge=1, le=64), count("--gamma")] = None
    acceptance: Annotated[tuple[Rate, ...], FromText(parse_number, "--acceptance")] = ()
    decay: Annotated[float, Within(gt=0, le=1), number("--decay")] = 1.0
    accepted_length: tuple[str, ...] = ()  # "3.1", or "4:3.1": measured with 4 draft tokens
    target_probs: str | None = None
    draft_probs: str | None = None
    tree_width: Annotated[tuple[Width, ...], Checked(_few), FromText(parse_count, "--tree-width")] = ()
    tree: bool = False  # the method's own
    tree_nodes: Annotated[int | None, Within(ge=1, le=4096), count("--tree-nodes")] = None


def speculate(question: Question, settings: SpeculateSettings | None = None) -> SpeculateReport:
    """What drafting is worth on this deployment, at `--batch` (1 unless given) and by batch."""
    settings = settings or SpeculateSettings()
    plain = replace(question.deployment, num_speculative_tokens=0, acceptance=())
    target = Deployed(question._replace(deployment=plain))
    plain_speed = Performance(target)
    point = plain_speed.point
    batch, context = question.workload.batch or 1, point.mean_context
    found, assumed = _drafter(target, settings)
    draft, placed = deploy_draft(target, found)
    gamma = settings.gamma or question.deployment.num_speculative_tokens or None
    acceptance, usual = _acceptance(target, found, settings, gamma)
    rounds = Rounds(target, draft, found, acceptance, context)
    if gamma is not None and gamma > rounds.longest:
        raise KvcalcError(
            f"--gamma {gamma} is beyond the {rounds.longest} positions that acceptance or tree is given for",
            hint="give a value for each position, or one with --decay",
        )
    best = rounds.best(batch)
    result = _result(rounds, batch, best if gamma is None else gamma, best, plain_speed)
    return SpeculateReport(
        inputs={
            "model": target.model.name,
            "gpu": target.gpu.name,
            **deployment_inputs(target),
            "batch": batch,
            "context": context,
            **data_of(settings),
            "gamma": result.gamma,
            "draft": found.name,
        },
        result=result,
        figures=_working(rounds, result),
        assumptions=(
            *question.assumptions,
            *assumptions_of(target),
            *point.assumptions,
            *assumed,
            *placed,
            *usual,
            *(() if plain_speed.step is None else plain_speed.step.assumptions),
            *unused(question, lambda other: speculate(other, settings).result),
        ),
        sources=(
            *target.model.sources,
            *(found.model.sources if found.kind == "model" and found.model else ()),
            *target.gpu.sources.values(),
        ),
        warnings=plain_speed.warnings,
    )


def _drafter(target: Deployed, settings: SpeculateSettings) -> tuple[Drafter, tuple[Assumption, ...]]:
    if bool(settings.tree_width) + bool(settings.tree_nodes) + settings.tree > 1:
        raise KvcalcError("the tree is shaped in several ways", hint="one of --tree, --tree-width, --tree-nodes")
    shape = None if settings.tree else Tree(widths=settings.tree_width, nodes=settings.tree_nodes)
    found = drafter(target.model, settings.draft, settings.draft_cost, shape)
    if settings.draft_quantization is not None and found.kind != "model":
        raise KvcalcError("--draft-quantization: no draft model is given", hint="name one with --draft")
    return as_served(found, target.model, settings.draft_quantization), found.assumptions


def _acceptance(
    target: Deployed, found: Drafter, settings: SpeculateSettings, gamma: int | None
) -> tuple[Acceptance, tuple[Assumption, ...]]:
    """From the one thing that was given; else what such a draft usually reaches, as a listed assumption."""
    files = settings.target_probs is not None or settings.draft_probs is not None
    if bool(settings.acceptance) + bool(settings.accepted_length) + files > 1:
        raise KvcalcError(
            "acceptance is given in several ways",
            hint="give one: --acceptance, --accepted-length, or --target-probs with --draft-probs",
        )
    of_level = found.tree.nodes is not None
    if settings.acceptance:
        given = from_rates(settings.acceptance, settings.decay)
        return replace(given, of_level=of_level), ()
    if settings.accepted_length:
        return from_lengths(_lengths(settings, gamma), _given_decay(settings)), ()
    if files:
        if settings.target_probs is None or settings.draft_probs is None:
            raise KvcalcError("acceptance needs both distributions", hint="give --target-probs and --draft-probs")
        given = from_files(settings.target_probs, settings.draft_probs)
        return replace(given, decay=settings.decay, of_level=of_level), ()
    taken, why = usual_acceptance(target.model, found)
    return taken, (why,)


def _given_decay(settings: SpeculateSettings) -> float | None:
    return settings.decay if settings.decay != 1 else None


def _lengths(settings: SpeculateSettings, gamma: int | None) -> dict[int, float]:
    found: dict[int, float] = {}
    for text in settings.accepted_length:
        at, colon, length = text.rpartition(":")
        where = parse_count(at, "--accepted-length") if colon else gamma
        if where is None or not 1 <= where <= 64:
            raise KvcalcError(
                f"--accepted-length {text[:40]}: with how many draft tokens?", hint="write GAMMA:LENGTH, such as 4:3.1"
            )
        found[where] = parse_number(length, "--accepted-length")
    return found


def _result(rounds: Rounds, batch: int, gamma: int, best: int, plain: Performance) -> SpeculateResult:
    target, acceptance = rounds.target, rounds.acceptance
    context = plain.point.context
    at = rounds.at(batch, gamma)
    replicas = target.deployment.data_parallel_size
    both = deploy_both(target, rounds.drafter, gamma or 1)
    memory = draft_memory(target, both, context)
    fitting = verdict(both, plain.point)
    last = max(SHOWN_GAMMAS, gamma, best)
    speed, plain_speed = replicas * batch / at.tpot_s, replicas * batch / at.plain_s
    return SpeculateResult(
        model=target.model.name,
        gpu=target.gpu.title,
        gpus=target.deployment.gpus,
        engine=target.deployment.engine,
        fits=fitting.fits,
        fit=fitting.fit,
        reason=fitting.reason,
        draft=rounds.drafter.name,
        batch=batch,
        context=rounds.context,
        gamma=gamma,
        tokens_per_pass=at.tokens,
        speedup=float(at.speedup) if target.replica.ideal else range_of(at.gain),
        best_gamma=best,
        acceptance_rate=acceptance.rate,
        decay=acceptance.decay,
        acceptance=acceptance.positions,
        draft_cost_ratio=rounds.draft_pass_s(batch) / at.plain_s,
        verify_cost_ratio=at.verify_s / at.plain_s,
        plain_step_s=at.plain_s,
        verify_s=at.verify_s,
        draft_s=at.draft_s,
        engine_s=at.engine_s,
        tpot_s=at.tpot_s,
        output_tokens_per_s=speed,
        usd_per_million_output_tokens=usd_per_million(target, speed),
        plain_output_tokens_per_s=plain_speed,
        plain_usd_per_million_output_tokens=usd_per_million(target, plain_speed),
        by_gamma=tuple(_gamma_row(rounds, batch, n) for n in range(1, min(last, rounds.longest) + 1)),
        by_batch=_by_batch(rounds, gamma, batch, memory.max_batch),
        stops_paying_at_batch=_stops(rounds, gamma),
        pays_from_acceptance=_pays_from(rounds, batch, gamma),
        memory=memory,
        at_capacity=_at_capacity(rounds, gamma, memory.max_batch, memory.max_batch_without),
        serving=plain.serving,
    )


def _gamma_row(rounds: Rounds, batch: int, gamma: int) -> GammaRow:
    at = rounds.at(batch, gamma)
    return GammaRow(
        gamma=gamma,
        drafted_tokens=rounds.drafter.tree.drafted(gamma),
        tokens_per_pass=at.tokens,
        verify_s=at.verify_s,
        draft_s=at.draft_s,
        speedup=at.speedup,
    )


def _by_batch(rounds: Rounds, gamma: int, asked: int, largest: int | None) -> tuple[BatchRow, ...]:
    """Powers of two, the batch that was asked for, and the largest that fits."""
    batches = sorted({*BATCHES, asked, *([largest] if largest else [])})
    return tuple(_batch_row(rounds, gamma or 1, batch, largest) for batch in batches)


def _batch_row(rounds: Rounds, gamma: int, batch: int, largest: int | None) -> BatchRow:
    at, best = rounds.at(batch, gamma), rounds.best(batch)
    return BatchRow(
        batch=batch,
        speedup=at.speedup,
        verify_rows=int(formulas.verify_rows(batch, rounds.drafter.tree.drafted(gamma))),
        verify_cost_ratio=at.verify_s / at.plain_s,
        tpot_s=at.tpot_s,
        plain_tpot_s=at.plain_s,
        output_tokens_per_s=rounds.target.deployment.data_parallel_size * batch / at.tpot_s,
        best_gamma=best,
        best_speedup=rounds.at(batch, best).speedup,
        fits=largest is None or batch <= largest,
    )


def _stops(rounds: Rounds, gamma: int) -> int | None:
    """The batch from which on a round gains nothing. Of a mixture of experts the gain may dip and rise before."""
    import numpy as np

    batches = np.array([2.0**i for i in range(LARGEST_BATCH.bit_length())])
    paying = [int(b) for b, s in zip(batches, rounds.at(batches, gamma or 1).speedup, strict=True) if s > 1]
    if not paying:
        return 1
    low, high = max(paying), 2 * max(paying)
    if high > LARGEST_BATCH:
        return None
    between = range(low + 1, high)
    return low + 1 + bisect_left(between, True, key=lambda batch: rounds.at(batch, gamma or 1).speedup <= 1)


def _pays_from(rounds: Rounds, batch: int, gamma: int) -> float | None:
    at, levels = rounds.at(batch, gamma or 1), rounds.drafter.tree.levels(gamma or 1)
    given = rounds.acceptance

    def speedup(rate: float) -> float:
        other = replace(given, rate=rate, positions=())
        return float(other.tokens_per_pass(levels) * at.plain_s / at.round_s)

    return break_even(speedup)


def _at_capacity(rounds: Rounds, gamma: int, fitting: int | None, without: int | None) -> AtCapacity | None:
    admitted = rounds.target.max_num_seqs
    if not fitting or not without:
        return None
    with_draft, alone = (min(n, admitted) if admitted else n for n in (fitting, without))
    replicas = rounds.target.deployment.data_parallel_size
    plain = replicas * alone / rounds.plain_s(alone)
    drafted = replicas * with_draft / rounds.at(with_draft, gamma or 1).tpot_s
    return AtCapacity(
        plain_batch=alone,
        plain_output_tokens_per_s=plain,
        batch=with_draft,
        output_tokens_per_s=drafted,
        gain=drafted / plain,
    )


def _working(rounds: Rounds, result: SpeculateResult) -> tuple[Figure, ...]:
    """Tokens of a pass, the two cost ratios, and the speed-up from them."""
    acceptance, levels = rounds.acceptance, rounds.drafter.tree.levels(result.gamma)
    uniform = not acceptance.positions and (acceptance.of_level or all(width == 1 for width in levels))
    figures = []
    if uniform:
        figures.append(
            explain(
                formulas.tokens_per_pass,
                name="tokens per pass",
                alpha=acceptance.rate,
                gamma=result.gamma,
                decay=acceptance.decay,
            )
        )
    if rounds.drafter.kind != "lookup":
        figures.append(
            explain(
                formulas.draft_cost_ratio,
                name="draft cost ratio",
                draft_step_time_s=result.draft_cost_ratio * result.plain_step_s,
                target_step_time_s=result.plain_step_s,
            )
        )
    passes = rounds.drafter.passes(result.gamma)
    each = (result.draft_s + result.engine_s) / result.plain_step_s / passes if passes else 0.0
    engine = 0.0 if passes else result.engine_s / result.plain_step_s
    figures.append(
        explain(
            formulas.speculative_speedup,
            name="speed-up",
            tokens_per_pass=result.tokens_per_pass,
            gamma=passes,
            draft_cost_ratio=each,
            verify_cost_ratio=result.verify_cost_ratio + engine,
        )
    )
    return tuple(figures)
