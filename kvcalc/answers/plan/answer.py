"""`kvcalc plan`: which GPUs, how many, what they cost, and the line that starts them."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import Any

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.explain import labelled
from kvcalc.answers.plan.apart import Apart, apart
from kvcalc.answers.plan.asked import Asked, asked_of
from kvcalc.answers.plan.candidate import Held, candidate, flags_of
from kvcalc.answers.plan.emission import emission, emission_apart
from kvcalc.answers.plan.halves import Load, searched
from kvcalc.answers.plan.lacking import lacking, nothing_fits, question_of
from kvcalc.answers.plan.pools import separate_pools
from kvcalc.answers.plan.ranking import front, ranked
from kvcalc.answers.plan.search import Found, Outcome
from kvcalc.answers.plan.settings import PlanSettings, available
from kvcalc.answers.plan.space import Space, priced
from kvcalc.answers.plan.tuning import tuned
from kvcalc.answers.plan.unused import unused_flags
from kvcalc.catalog.models import load_model
from kvcalc.results.base import Figure
from kvcalc.results.data import data_of
from kvcalc.results.plan import PlanReport, PlanResult
from kvcalc.specs.base import Assumption
from kvcalc.specs.deployment import USUAL_ENGINE, engine_called
from kvcalc.specs.load import Workload

Progress = Callable[[str, float], None]
MOST_SIMULATED = 10
MOST_DEAR = 20  # times the first's bill, of what is shown for its speed
SHOWN = 3  # separate pools
NEAREST = 3  # shown where nothing meets the targets
MEANS = "means of a closed loop, as `size` has them: half of the requests may be slower"


def plan(
    model: str,
    flags: Mapping[str, Any],
    settings: PlanSettings,
    progress: Progress = lambda _what, _share: None,
    cores: int = 1,
    with_working: bool = False,
) -> PlanReport:
    """The deployments that carry the load within the targets, the cheapest first.

    Args:
        model: a name, as every command takes it.
        flags: by field, as typed; a list where several values are to be tried.
        settings: the load, targets and limits.
        progress: is called with what is simulated and the share that is done.
        cores: processes that search at the same time.
        with_working: with the figures behind `--explain`, of every deployment that is shown.

    Raises:
        KvcalcError: no load, no lengths, or nothing that can be deployed at all.
    """
    asked = asked_of(model, flags, settings)
    names = asked.given.get("gpu") or list(available(settings))
    engine = engine_called(str(asked.given.get("engine", [USUAL_ENGINE])[0]))
    read = cache(partial(load_model, strict=bool(flags.get("strict"))))
    space = Space(model, asked.given, read)
    done = searched(space, names or priced(engine), Load(asked.demand, asked.targets, asked.limits), cores)
    outcome = done.within(asked.limits)
    if settings.objective == "usd":
        more = tuned(space, done.found, asked.demand, asked.targets, asked.limits)
        outcome = outcome._replace(met=[*outcome.met, *more], tried=outcome.tried + len(more))
    best = ranked(outcome.met, settings.objective) or ranked(outcome.beyond, settings.objective) or outcome.nearest
    if not best:
        return nothing_fits(asked, outcome, space, _inputs(asked))
    result = _result(asked, outcome, best) if settings.percentile is None else _held(asked, outcome, best, progress)
    first = best[0].fleet.deployed
    return PlanReport(
        inputs=_inputs(asked),
        result=result,
        figures=_working(asked, best, result) if with_working else (),
        assumptions=(
            _latencies(settings, asked.workload),
            *asked.traced.assumptions,
            *first.question.assumptions,
            *_assumed(best[0]),
            *unused_flags(best[0], asked),
        ),
        sources=(*first.model.sources, *first.gpu.sources.values()),
        warnings=(*first.model.warnings, *first.bill.warnings),
    )


def _assumed(first: Found) -> tuple[Assumption, ...]:
    """Of the first deployment; what a calibration changes is said of the clients that it has here."""
    deployed = first.fleet.deployed
    found = assumptions_of(deployed)
    if deployed.gpu.calibration is None:
        return found
    from kvcalc.answers.calibrate.both import figures_at, with_figures

    return with_figures(found, deployed, partial(figures_at, concurrency=first.point.clients))


def _working(asked: Asked, best: Sequence[Found], result: PlanResult) -> tuple[Figure, ...]:
    """Of what is shown: the deployments whose flags and replicas are those of a candidate, in its order."""
    from kvcalc.answers.plan.working import candidate_working, label

    figures: list[Figure] = []
    for place, one in enumerate(result.candidates, 1):
        found = next(each for each in best if flags_of(each) == one.deployment and each.replicas == one.replicas)
        figures += labelled(label(place, one), candidate_working(found, one, asked))
    return tuple(figures)


def _latencies(settings: PlanSettings, workload: Workload) -> Assumption:
    """What the targets are of."""
    if settings.percentile is None:
        return Assumption(name="latencies", value="means", why=MEANS)
    why = "simulated; TTFT and TPOT of the table are means"
    if settings.trace is None:
        mixed = "lengths are mixed, half to one and a half of the mean, and --equal-lengths makes them equal"
        why += f"; {'all lengths are equal' if workload.equal_lengths else mixed}"
    return Assumption(name="latencies", value=f"p{settings.percentile:g}", why=why)


def _held(asked: Asked, outcome: Outcome, best: list[Found], progress: Progress) -> PlanResult:
    """The best of the list through the simulator, each with the replicas that the percentile takes."""
    from kvcalc.answers.plan.simulated import all_held

    settings = asked.settings
    done = all_held(best[: min(settings.top, MOST_SIMULATED)], asked, progress)
    by_fleet = {id(one.found.fleet): one for one in done}
    good = [one.found for one in done if one.figures.meets and asked.limits.keeps(one.found)]
    order = ranked(good, settings.objective) or [one.found for one in done]
    return _result(asked, outcome._replace(met=good), order, by_fleet)


def _result(asked: Asked, outcome: Outcome, best: list[Found], held: Mapping[int, Held] | None = None) -> PlanResult:
    """The best of the list and those on the front; where nothing meets the targets, the nearest."""
    settings, met = asked.settings, bool(outcome.met)
    on_front = front(best, settings.objective) if met else set()
    shown = [i for i in range(len(best)) if i < (settings.top if met else NEAREST) or _worth(best, i, on_front)]
    separate = _apart(asked, best)
    found = tuple(candidate(best[i], asked, i in on_front, (held or {}).get(id(best[i].fleet))) for i in shown)
    return PlanResult(
        **question_of(asked),
        model=best[0].fleet.deployed.model.name,
        fits=found[0].fits,
        fit=found[0].fit,
        reason=found[0].reason,
        met=met,
        candidates=found,
        separate_pools=tuple(separate_pools(one, asked) for one in separate),
        tried=outcome.tried,
        fitting=len(outcome.met) + len(outcome.beyond) + len(outcome.missed),
        meeting=len(outcome.met),
        emitted=_emitted(asked, best, separate) if met else None,
        summary=tuple(lacking(found, outcome, asked.limits)),
    )


def _emitted(asked: Asked, best: list[Found], separate: Sequence[Apart]) -> str | None:
    return emission_apart(separate, asked) if asked.settings.emit_pools else emission(best[0], asked)


def _apart(asked: Asked, best: list[Found]) -> Sequence[Apart]:
    """Prompts and decoding on replicas of their own, where that is cheaper; the simulator has its own percentiles."""
    if asked.settings.percentile is not None or asked.settings.objective != "usd":
        return ()
    return apart(best, asked.demand, asked.targets, asked.limits)[:SHOWN]


def _worth(best: list[Found], place: int, on_front: set[int]) -> bool:
    """Whether a deployment of the front is shown though others are cheaper: not at many times the cheapest bill."""
    bill, least = best[place].usd_per_hour, best[0].usd_per_hour
    return place in on_front and (bill is None or least is None or bill <= MOST_DEAR * least)


def _inputs(asked: Asked) -> dict[str, Any]:
    return {
        "model": asked.model,
        "gpus": asked.given.get("gpu"),
        **data_of(asked.settings),
        **data_of(asked.workload),
    }
