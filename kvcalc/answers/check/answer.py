"""`kvcalc check`: do the deployments of a budget file still meet their limits."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cache

from kvcalc.answers.check.figures import AT_LEAST, EQUAL, UNFIT, UNLIMITED, Judged, Judging, judged
from kvcalc.answers.check.mending import mending
from kvcalc.answers.common_assumptions import Name, gathered
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import figure_of, labelled
from kvcalc.answers.pasted import Pasted, question_of
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Loader, Question
from kvcalc.answers.size.answer import size
from kvcalc.answers.verdict import unfit_reason
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure, engine_name
from kvcalc.results.check import CheckedDeployment, CheckReport, CheckResult, LimitResult
from kvcalc.results.size import SizeResult
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.budget import Budget, Entry

MOST_SAID = 6  # changes, of one deployment
MOST_ADVISED = 10  # advice puts a deployment through the calculation ten times


def check(budget: Budget, with_working: bool = False) -> CheckReport:
    """Every deployment of the file against its limits; failures first; `with_working`: and the figures behind them.

    A deployment that cannot be judged fails, and the others are judged.

    Raises:
        KvcalcError: none could be judged.
    """
    beside = _Beside(with_working)
    load = cache(load_model)
    done: list[CheckedDeployment] = []
    errors: list[KvcalcError] = []
    for entry in budget.entries:
        try:
            done.append(_checked(entry, load, beside))
        except KvcalcError as error:
            errors.append(KvcalcError(f"{entry.place}: {error.message}", hint=error.hint))
            done.append(_unjudged(entry, error))
    if len(errors) == len(budget.entries):
        raise errors[0]
    done.sort(key=lambda one: one.passed)
    entries = {entry.name: entry for entry in budget.entries}
    done = [_advised(one, entries[one.name], load) if i < MOST_ADVISED else one for i, one in enumerate(done)]
    return CheckReport(
        inputs={"file": budget.path, "deployments": len(budget.entries), "serve": beside.serve},
        result=CheckResult(passed=all(one.passed for one in done), deployments=tuple(done)),
        figures=tuple(beside.figures),
        assumptions=gathered(beside.assumptions),
        warnings=(*(error.message for error in errors), *beside.warnings),
    )


@dataclass
class _Beside:
    """What is said beside the verdicts: of each deployment its own."""

    with_working: bool
    figures: list[Figure] = field(default_factory=list)
    assumptions: list[tuple[Name, tuple[Assumption, ...]]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    serve: list[dict[str, object]] = field(default_factory=list)  # pasted commands

    def add(
        self, name: str, assumptions: tuple[Assumption, ...], doubts: tuple[str, ...], command: Pasted | None
    ) -> None:
        """What holds for one deployment."""
        if command is not None:
            assumptions, doubts = (*assumptions, *command.assumptions), (*command.warnings, *doubts)
            self.serve.append({"deployment": name, **command.inputs["serve"]})
        self.assumptions.append(({"deployment": name}, assumptions))
        self.warnings += [f"{name}: {said}" for said in doubts]


def _checked(entry: Entry, load: Loader, beside: _Beside) -> CheckedDeployment:
    question, command = _question(entry, load)
    report = size(question, with_advice=False, strict=True, with_working=beside.with_working)
    result, deployed = report.result, Deployed(question)
    unfit = unfit_reason(deployed, Performance(deployed).point, end="value" if entry.limits.judge == "value" else "low")
    asked = Judging(deployed, result, entry.limits)
    results = tuple(
        replace(
            _limit(name, want, judged(name, asked), unfit is None),
            line=entry.lines.get(name, entry.line),
        )
        for name, want in entry.limits.given.items()
    )
    assumptions = (*report.assumptions, *_prompt_assumed(entry, question, result))
    beside.figures += labelled(entry.name, (*report.figures, *_misses(results)))
    beside.add(entry.name, assumptions, question.model.warnings, command)
    return CheckedDeployment(
        name=entry.name,
        model=result.model,
        gpu=result.gpu,
        header=_header(entry, result),
        line=entry.line,
        passed=all(one.passed for one in results),
        fits=unfit is None,
        reason=unfit,
        limits=tuple(sorted(results, key=lambda one: one.passed)),
        doubts=question.model.warnings,
        command=result.command,
    )


def _misses(limits: Iterable[LimitResult]) -> Iterator[Figure]:
    """How far each broken limit is missed, as a share of it."""
    for one in limits:
        if one.miss is not None and one.have is not None:
            formula = "(have - want) / want" if one.have > one.want else "(want - have) / want"
            yield figure_of(f"{one.name} missed by", formula, {"want": one.want, "have": one.have}, "1", "the budget")


def _unjudged(entry: Entry, error: KvcalcError) -> CheckedDeployment:
    return CheckedDeployment(
        name=entry.name,
        model=entry.model,
        gpu=entry.gpu,
        header=f"{entry.name}: {entry.model} on {entry.gpu}",
        line=entry.line,
        passed=False,
        fits=None,
        reason=f"cannot be judged: {error.message}; {error.hint}",
        limits=(),
    )


def _advised(one: CheckedDeployment, entry: Entry, load: Loader) -> CheckedDeployment:
    """What would mend a broken deployment."""
    if one.passed or not one.limits:
        return one
    broken = tuple(limit for limit in one.limits if not limit.passed)
    found = mending(Deployed(_question(entry, load)[0]), broken, entry.limits)
    limits = tuple(replace(limit, mend=next(iter(found.get(limit.name, ())), None)) for limit in one.limits)
    every = {said.change: said for said in reversed([said for helps in found.values() for said in helps])}
    return replace(one, limits=limits, advice=tuple(reversed(every.values()))[:MOST_SAID])


def _question(entry: Entry, load: Loader) -> tuple[Question, Pasted | None]:
    return question_of(entry.model, {"gpu": entry.gpu, **entry.flags}, load)


def _header(entry: Entry, result: SizeResult) -> str:
    return f"{entry.name}: {result.model} on {result.gpus} × {result.gpu}, {engine_name(result.engine)}"


def _limit(name: str, want: float | bool, judged: Judged, fits: bool) -> LimitResult:
    """What does not fit keeps no limit, whatever the figure would be if it did."""
    have, way, judged_on = judged
    if have == UNLIMITED:
        return LimitResult(name=name, want=want, have=None, passed=fits, judged_on="no limit")
    if have is None:
        kept = False
    elif way == EQUAL:
        kept = have == want
    else:
        kept = have >= want if way == AT_LEAST else have <= want
    miss = None
    if not kept and have is not None and way != EQUAL and want:
        miss = (want - have) / want if way == AT_LEAST else (have - want) / want
    passed = kept and (fits or way == EQUAL)
    said = judged_on if passed or not kept else UNFIT
    return LimitResult(name=name, want=want, have=have, passed=passed, miss=miss, judged_on=said)


def _prompt_assumed(entry: Entry, question: Question, result: SizeResult) -> tuple[Assumption, ...]:
    if entry.limits.max_ttft is None or question.workload.input_len is not None:
        return ()
    why = "no input-len was given: max-ttft is judged on a prompt as long as the context"
    return (Assumption(name="input_len", value=result.context, why=why),)
