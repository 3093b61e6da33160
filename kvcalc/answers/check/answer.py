"""`kvcalc check`: do the deployments of a budget file still meet their limits."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache

from kvcalc.answers.advice import advice
from kvcalc.answers.common_assumptions import Name, gathered
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.pasted import Pasted, question_of
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Loader, Question
from kvcalc.answers.size.answer import size
from kvcalc.answers.verdict import unfit_reason
from kvcalc.catalog.models import load_model
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Range, engine_name
from kvcalc.results.check import CheckedDeployment, CheckReport, CheckResult, LimitResult
from kvcalc.results.size import SizeResult
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.budget import Budget, Entry, Limits
from kvcalc.units import GIB

MOST_ADVISED = 10  # advice puts a deployment through the calculation ten times
UNLIMITED = float("inf")  # a model that keeps nothing holds any number of sequences
AT_LEAST, AT_MOST, EQUAL = "at least", "at most", "equal"

Judged = tuple[float | bool | None, str, str]


def check(budget: Budget) -> CheckReport:
    """Every deployment of the file against its limits; failures first.

    A deployment that cannot be judged fails, and the others are judged.

    Raises:
        KvcalcError: none could be judged.
    """
    beside = _Beside()
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
        assumptions=gathered(beside.assumptions),
        warnings=(*(error.message for error in errors), *beside.warnings),
    )


@dataclass(kw_only=True)
class _Beside:
    """What is said beside the verdicts: of each deployment its own."""

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
    report = size(question, with_advice=False, strict=True, with_working=False)
    result, deployed = report.result, Deployed(question)
    unfit = unfit_reason(deployed, Performance(deployed).point, end="value" if entry.limits.judge == "value" else "low")
    results = tuple(
        _limit(name, want, _judged(name, deployed, result, entry.limits), unfit is None)
        for name, want in entry.limits.given.items()
    )
    assumptions = (*report.assumptions, *_prompt_assumed(entry, question, result))
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
        command=result.command,
    )


def _unjudged(entry: Entry, error: KvcalcError) -> CheckedDeployment:
    return CheckedDeployment(
        name=entry.name,
        model=entry.model,
        gpu=entry.gpu,
        header=f"{entry.name}: {entry.model} on {entry.gpu}",
        line=entry.line,
        passed=False,
        fits=None,
        reason=f"cannot be judged: {error.message}",
        limits=(),
    )


def _advised(one: CheckedDeployment, entry: Entry, load: Loader) -> CheckedDeployment:
    """What would mend a broken deployment."""
    if one.passed or not one.limits:
        return one
    return replace(one, advice=advice(Performance(Deployed(_question(entry, load)[0]))))


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
    said = judged_on if passed or not kept else "does not fit"
    return LimitResult(name=name, want=want, have=have, passed=passed, miss=miss, judged_on=said)


def _judged(name: str, deployed: Deployed, result: SizeResult, limits: Limits) -> Judged:
    if name == "fits":
        return _fits(deployed, limits)
    if name == "max-ttft":
        return _ttft(deployed, result, limits)
    return FIGURES[name](result, limits)


def _fits(deployed: Deployed, limits: Limits) -> Judged:
    """At the low end of the pool; with `judge = "value"` at its value."""
    end, said = ("value", "pool") if limits.judge == "value" else ("low", "pool's low")
    unfit = unfit_reason(deployed, Performance(deployed).point, end="value" if end == "value" else "low")
    return unfit is None, EQUAL, said


def _time(result: SizeResult, limits: Limits, figure: str, way: str) -> Judged:
    """A figure of time on the side that the file asks for: the estimate's worse end, its value, or the bound."""
    if limits.judge == "bound":
        if result.serving is not None:
            raise KvcalcError(
                'judge = "bound" has no serving figures', hint="leave input-len and output-len out, or judge by value"
            )
        name = "step_time_s" if figure == "tpot_s" else figure
        value = None if result.bound is None else getattr(result.bound, name)
        return value, way, "bound" if value is not None else "nothing fits"
    found = result.headline
    if found is None:
        return None, way, "nothing fits"
    if found.basis == "bound":
        raise KvcalcError(
            "there is no estimate to judge a limit on time or cost by", hint='set judge = "bound" in the limits'
        )
    return _estimated(getattr(found, figure), limits, way, "serving" if found.basis == "serving" else "estimate")


def _estimated(estimate: Range | None, limits: Limits, way: str, basis: str) -> Judged:
    if estimate is None:
        return None, way, "one token out" if basis == "serving" else "nothing fits"
    if limits.judge == "value":
        return estimate.value, way, basis
    worse = estimate.high if way == AT_MOST else estimate.low
    return worse, way, f"{basis}'s high" if way == AT_MOST else f"{basis}'s low"


def _ttft(deployed: Deployed, result: SizeResult, limits: Limits) -> Judged:
    """Serving's where lengths are given, else of a prompt that has the engine to itself."""
    if result.serving is not None and limits.judge != "bound":
        return _estimated(result.serving.ttft_s, limits, AT_MOST, "serving")
    if result.batch is None:
        return None, AT_MOST, "nothing fits"
    alone = Performance(deployed).alone(deployed.question.workload.input_len or result.context)
    if limits.judge == "bound":
        return alone.bound_s, AT_MOST, "bound"
    if alone.estimate is None:
        raise KvcalcError("there is no estimate to judge max-ttft by", hint='set judge = "bound" in the limits')
    return _estimated(alone.estimate, limits, AT_MOST, "estimate")


def _prompt_assumed(entry: Entry, question: Question, result: SizeResult) -> tuple[Assumption, ...]:
    if entry.limits.max_ttft is None or question.workload.input_len is not None:
        return ()
    why = "no input-len was given: max-ttft is judged on a prompt as long as the context"
    return (Assumption(name="input_len", value=result.context, why=why),)


# How each limit is judged: its figure, and whether the figure must be at least or at most the limit.
FIGURES: dict[str, Callable[[SizeResult, Limits], Judged]] = {
    "min-sequences": lambda r, _: (_held(r, r.kv_cache_max_concurrency), AT_LEAST, ""),
    "min-batch": lambda r, _: (_held(r, r.max_batch), AT_LEAST, ""),
    "min-tokens": lambda r, _: (_held(r, r.kv_cache_size_tokens), AT_LEAST, ""),
    "max-weight-gib": lambda r, _: (r.weight_bytes_per_gpu / GIB, AT_MOST, ""),
    "max-kv-bytes-per-token": lambda r, _: (r.kv_cache_bytes_per_token, AT_MOST, ""),
    "max-tpot": lambda r, limits: _time(r, limits, "tpot_s", AT_MOST),
    "min-tokens-per-second": lambda r, limits: _time(r, limits, "output_tokens_per_s", AT_LEAST),
    "max-usd-per-mtok": lambda r, limits: _time(r, limits, "usd_per_million_output_tokens", AT_MOST),
    "max-gpus": lambda r, _: (r.gpus, AT_MOST, ""),
}


def _held(result: SizeResult, value: float | None) -> float | None:
    """Nothing is held where the pool is not predicted or the engine does not start."""
    if result.kv_pool_bytes_per_gpu is None:
        return None
    return UNLIMITED if value is None else value
