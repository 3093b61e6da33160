"""`kvcalc plan`: which GPUs, how many, what they cost, and the line that starts them."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from typing import Any, NamedTuple

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.plan.candidate import candidate
from kvcalc.answers.plan.demand import Demand, demand
from kvcalc.answers.plan.ranking import front, ranked
from kvcalc.answers.plan.search import Choice, Found, Limits, Outcome, search
from kvcalc.answers.plan.settings import PlanSettings, available
from kvcalc.answers.plan.space import choices, gpus_of
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.question import Loader, Question, placed, unplaced
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.results.data import data_of
from kvcalc.results.plan import Candidate, PlanReport, PlanResult
from kvcalc.specs.base import Assumption
from kvcalc.specs.checked import checked
from kvcalc.specs.load import Workload
from kvcalc.units import format_usd

NEAREST = 3  # shown where nothing meets the targets
MEANS = "means of a closed loop, as `size` has them: half of the requests may be slower"


def plan(model: str, flags: Mapping[str, Any], settings: PlanSettings) -> PlanReport:
    """The deployments that carry the load within the targets, the cheapest first.

    Args:
        model: a name, as every command takes it.
        flags: by field, as typed; a list where several values are to be tried.
        settings: the load, targets and limits.

    Raises:
        KvcalcError: no load, no lengths, or nothing that could be tried.
    """
    given = {name: list(value) if isinstance(value, (list, tuple)) else [value] for name, value in flags.items()}
    workload, load = _workload(given), demand(settings)
    asked = Asked(model, given, settings, workload, load, _targets(workload, settings), _limits(settings))
    names = given.get("gpu") or list(available(settings))
    read = cache(partial(load_model, strict=bool(flags.get("strict"))))
    outcome = search(_choices(asked, names, read), load, asked.targets, asked.limits)
    best = ranked(outcome.met, settings.objective) or ranked(outcome.beyond, settings.objective) or outcome.nearest
    if not best:
        raise KvcalcError(*_nothing(outcome))
    first = best[0].fleet.deployed
    return PlanReport(
        inputs=_inputs(asked),
        result=_result(asked, outcome, best),
        assumptions=(
            Assumption(name="latencies", value="means", why=MEANS),
            *first.question.assumptions,
            *assumptions_of(first),
        ),
        sources=(*first.model.sources, *first.gpu.sources.values()),
        warnings=first.bill.warnings,
    )


class Asked(NamedTuple):
    """What a plan is asked, read."""

    model: str
    given: dict[str, list[Any]]
    settings: PlanSettings
    workload: Workload
    demand: Demand
    targets: Targets
    limits: Limits


def _result(asked: Asked, outcome: Outcome, best: list[Found]) -> PlanResult:
    """The best of the list and those on the front; where nothing meets the targets, the nearest."""
    settings, workload, met = asked.settings, asked.workload, bool(outcome.met)
    on_front = front(best, settings.objective) if met else set()
    shown = [i for i in range(len(best)) if i < (settings.top if met else NEAREST) or i in on_front]
    found = tuple(candidate(best[i], asked.model, i in on_front) for i in shown)
    return PlanResult(
        model=best[0].fleet.deployed.model.name,
        met=met,
        objective=settings.objective,
        input_len=workload.input_len or 0,
        output_len=workload.output_len or 0,
        prefix_hit=workload.prefix_hit or 0,
        users=asked.demand.users,
        think_s=asked.demand.think_s,
        request_rate=asked.demand.request_rate,
        targets={name: getattr(asked.targets, name) for name in ("ttft_s", "tpot_s", "e2e_s")},
        judge=settings.judge,
        candidates=found,
        tried=outcome.tried,
        fitting=len(outcome.met) + len(outcome.beyond) + len(outcome.missed),
        meeting=len(outcome.met),
        summary=tuple(_summary(found, outcome, asked.limits)),
    )


def _targets(workload: Workload, settings: PlanSettings) -> Targets:
    assert workload.output_len is not None
    return Targets(workload.ttft_s, workload.tpot_s, settings.e2e_s, workload.output_len, settings.judge)


def _limits(settings: PlanSettings) -> Limits:
    there = {load_gpu(name).name: number for name, number in available(settings).items()}
    return Limits(there or None, settings.max_usd_per_hour)


def _workload(given: dict[str, list[Any]]) -> Workload:
    """What each request is like; both lengths must be given."""
    names = ("input_len", "output_len", "prefix_hit", "equal_lengths", "ttft_s", "tpot_s")
    found = checked(Workload, {name: given[name][0] for name in names if name in given})
    if found.input_len is None or found.output_len is None:
        raise KvcalcError("how long are the requests?", hint="give --isl and --osl")
    return found


def _choices(asked: Asked, names: list[str], load: Loader) -> Iterator[Choice]:
    """Each deployment with the question that `size` would be asked; what cannot be asked is left out."""
    spec, given = load(asked.model), asked.given
    fixed = {name: values[0] for name, values in given.items() if name != "gpu" and len(values) == 1}
    read: dict[tuple[tuple[str, Any], ...], Question] = {}
    for gpu in gpus_of(names):
        name = gpu.name if gpu.instance is None else gpu.instance.name
        for choice in choices(spec, gpu, given):
            flags, key = {**fixed, **choice, "gpu": name}, tuple(choice.items())
            try:
                if key not in read:
                    read[key] = unplaced(asked.model, flags, load=load)
                yield Choice(flags, placed(read[key], gpu))
            except KvcalcError:
                continue


def _nothing(outcome: Outcome) -> tuple[str, str]:
    why = next(iter(outcome.unfit.values()), "nothing could be tried")
    return f"no deployment fits: {why}", "name larger GPUs with --gpu, or store the weights smaller with --quantization"


def _inputs(asked: Asked) -> dict[str, Any]:
    return {
        "model": asked.model,
        "gpus": asked.given.get("gpu"),
        **data_of(asked.settings),
        **data_of(asked.workload),
    }


def _summary(found: Sequence[Candidate], outcome: Outcome, limits: Limits) -> Iterator[str]:
    """What an empty answer lacks."""
    nearest = found[0]
    if outcome.met:
        return
    if not outcome.beyond:
        said = ", ".join(f"{one.target.upper()} by {one.by:.0%}" for one in nearest.misses)
        yield f"No deployment meets the targets, even with one client a replica: the nearest misses {said}."
        return
    if limits.usd_per_hour is not None and nearest.usd_per_hour is not None:
        more = nearest.usd_per_hour - limits.usd_per_hour
        if more > 0:
            yield f"The cheapest that meets the targets costs {format_usd(more)} an hour more than the limit."
    if limits.gpus is not None:
        name = nearest.deployment["gpu"]
        there = limits.gpus.get(name, 0)
        if nearest.gpus > there:
            yield f"What meets the targets needs {nearest.gpus} {name}, and there are {there}."
