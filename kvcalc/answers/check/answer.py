"""`kvcalc check`: do the deployments of a budget file still meet their limits."""

from collections.abc import Callable
from functools import cache

from kvcalc.answers.advice import advice
from kvcalc.answers.common_assumptions import Name, gathered
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.passes import timed
from kvcalc.answers.pasted import ask_served
from kvcalc.answers.question import Loader, Question
from kvcalc.answers.size.answer import size
from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
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


def check(budget: Budget) -> CheckReport:
    """Every deployment of the file against its limits; failures first."""
    assumptions: list[tuple[Name, tuple[Assumption, ...]]] = []
    load = cache(load_model)
    done = [_checked(entry, load, assumptions) for entry in budget.entries]
    done.sort(key=lambda one: one.passed)
    entries = {entry.name: entry for entry in budget.entries}
    done = [_advised(one, entries[one.name], load) if i < MOST_ADVISED else one for i, one in enumerate(done)]
    return CheckReport(
        inputs={"file": budget.path, "deployments": len(budget.entries)},
        result=CheckResult(passed=all(one.passed for one in done), deployments=tuple(done)),
        assumptions=gathered(assumptions),
    )


def _checked(entry: Entry, load: Loader, assumptions: list[tuple[Name, tuple[Assumption, ...]]]) -> CheckedDeployment:
    try:
        question = _question(entry, load)
        report = size(question, with_advice=False, strict=True, with_working=False)
        result = report.result
        results = tuple(
            _limit(name, want, _judged(name, question, result, entry.limits))
            for name, want in entry.limits.given.items()
        )
    except KvcalcError as error:
        raise KvcalcError(f"{entry.place}: {error.message}", hint=error.hint) from error
    assumptions.append(({"deployment": entry.name}, (*report.assumptions, *_prompt_assumed(entry, question, result))))
    passed = all(one.passed for one in results)
    return CheckedDeployment(
        name=entry.name,
        model=result.model,
        gpu=result.gpu,
        header=_header(entry, result),
        line=entry.line,
        passed=passed,
        reason=result.reason,
        limits=tuple(sorted(results, key=lambda one: one.passed)),
    )


def _advised(one: CheckedDeployment, entry: Entry, load: Loader) -> CheckedDeployment:
    """What would mend a broken deployment."""
    if one.passed:
        return one
    deployed = Deployed(_question(entry, load))
    return replace(one, advice=advice(deployed, deployed.operating_point()))


def _question(entry: Entry, load: Loader) -> Question:
    return ask_served(entry.model, {"gpu": entry.gpu, **entry.flags}, load)


def _header(entry: Entry, result: SizeResult) -> str:
    return f"{entry.name}: {result.model} on {result.gpus} × {result.gpu}, {engine_name(result.engine)}"


Judged = tuple[float | bool | None, str, str]


def _limit(name: str, want: float | bool, judged: Judged) -> LimitResult:
    have, way, judged_on = judged
    if have == UNLIMITED:
        return LimitResult(name=name, want=want, have=None, passed=True, judged_on="no limit")
    if have is None:
        passed = False
    elif way == EQUAL:
        passed = have == want
    else:
        passed = have >= want if way == AT_LEAST else have <= want
    miss = None
    if not passed and have is not None and way != EQUAL and want:
        miss = (want - have) / want if way == AT_LEAST else (have - want) / want
    return LimitResult(name=name, want=want, have=have, passed=passed, miss=miss, judged_on=judged_on)


def _judged(name: str, question: Question, result: SizeResult, limits: Limits) -> Judged:
    return _ttft(question, result, limits) if name == "max-ttft" else FIGURES[name](result, limits)


def _time(result: SizeResult, limits: Limits, figure: str, way: str) -> Judged:
    """A figure of time on the side that the file asks for: the estimate's worse end, its value, or the bound."""
    if result.batch is None:
        return None, way, "nothing fits"
    if limits.judge == "bound":
        value = None if result.bound is None else getattr(result.bound, figure)
        return value, way, "bound"
    return _estimated(None if result.estimate is None else getattr(result.estimate, figure), limits, way)


def _estimated(estimate: Range | None, limits: Limits, way: str) -> Judged:
    if estimate is None:
        raise KvcalcError(
            "there is no estimate to judge a limit on time or cost by", hint='set judge = "bound" in the limits'
        )
    if limits.judge == "value":
        return estimate.value, way, "estimate"
    worse = estimate.high if way == AT_MOST else estimate.low
    return worse, way, "estimate's high" if way == AT_MOST else "estimate's low"


def _ttft(question: Question, result: SizeResult, limits: Limits) -> Judged:
    """At the concurrency if the file gives one, else of a prompt that has the engine to itself."""
    if result.batch is None:
        return None, AT_MOST, "nothing fits"
    serving = result.serving
    if serving is not None and serving.concurrency_given and limits.judge != "bound":
        return _estimated(serving.ttft_s, limits, AT_MOST)
    prompt = timed(Deployed(question), Step(prompts=1, tokens=question.workload.input_len or result.context))
    return (prompt.bound_s, AT_MOST, "bound") if limits.judge == "bound" else _estimated(prompt.range, limits, AT_MOST)


def _prompt_assumed(entry: Entry, question: Question, result: SizeResult) -> tuple[Assumption, ...]:
    if entry.limits.max_ttft is None or question.workload.input_len is not None:
        return ()
    why = "no input-len was given: max-ttft is judged on a prompt as long as the context"
    return (Assumption(name="input_len", value=result.context, why=why),)


# How each limit is judged: its figure, and whether the figure must be at least or at most the limit.
FIGURES: dict[str, Callable[[SizeResult, Limits], Judged]] = {
    "fits": lambda r, _: (r.fits, EQUAL, ""),
    "min-sequences": lambda r, _: (_held(r, r.kv_cache_max_concurrency), AT_LEAST, ""),
    "min-batch": lambda r, _: (_held(r, r.max_batch), AT_LEAST, ""),
    "min-tokens": lambda r, _: (_held(r, r.kv_cache_size_tokens), AT_LEAST, ""),
    "max-weight-gib": lambda r, _: (r.weight_bytes_per_gpu / GIB, AT_MOST, ""),
    "max-kv-bytes-per-token": lambda r, _: (r.kv_cache_bytes_per_token, AT_MOST, ""),
    "max-tpot": lambda r, limits: _time(r, limits, "step_time_s", AT_MOST),
    "min-tokens-per-second": lambda r, limits: _time(r, limits, "output_tokens_per_s", AT_LEAST),
    "max-usd-per-mtok": lambda r, limits: _time(r, limits, "usd_per_million_output_tokens", AT_MOST),
    "max-gpus": lambda r, _: (r.gpus, AT_MOST, ""),
}


def _held(result: SizeResult, value: float | None) -> float | None:
    """Nothing is held where the pool is not predicted or the engine does not start."""
    if result.kv_pool_bytes_per_gpu is None:
        return None
    return UNLIMITED if value is None else value
