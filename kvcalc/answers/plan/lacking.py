"""What an empty answer lacks: a target by so much, money, GPUs, or the memory to start."""

from collections.abc import Iterator, Sequence
from typing import Any

from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.search import Limits, Outcome
from kvcalc.answers.plan.space import Space
from kvcalc.errors import KvcalcError
from kvcalc.results.plan import Candidate, PlanReport, PlanResult
from kvcalc.units import format_usd

HINT = "Larger GPUs (--gpu) or weights stored smaller (--quantization) may fit."


def question_of(asked: Asked) -> dict[str, Any]:
    """The first fields of a result: what was asked."""
    settings, workload = asked.settings, asked.workload
    return {
        "objective": settings.objective,
        "input_len": workload.input_len or 0,
        "output_len": workload.output_len or 0,
        "prefix_hit": workload.prefix_hit or 0,
        "users": asked.demand.users,
        "think_s": asked.demand.think_s,
        "request_rate": asked.demand.request_rate,
        "targets": {name: getattr(asked.targets, name) for name in ("ttft_s", "tpot_s", "e2e_s")},
        "judge": settings.judge,
        "percentile": settings.percentile,
    }


def nothing_fits(asked: Asked, outcome: Outcome, space: Space, inputs: dict[str, Any]) -> PlanReport:
    """The answer where no deployment starts: why the one with the most memory does not.

    Raises:
        KvcalcError: none could be deployed at all, whatever the memory: the first one's own error.
    """
    if not outcome.unfit:
        if outcome.refused:
            raise KvcalcError(*outcome.refused[0])
        raise space.refused or KvcalcError("nothing could be tried", hint="name GPUs with --gpu")
    largest = max(outcome.unfit, key=lambda one: one.memory_bytes)
    reason = f"on {largest.where}: {largest.why}"
    model = space.load(asked.model)
    result = PlanResult(
        **question_of(asked),
        model=model.name,
        fits=False,
        fit="does_not_fit",
        reason=reason,
        met=False,
        candidates=(),
        separate_pools=(),
        tried=outcome.tried,
        fitting=0,
        meeting=0,
        emitted=None,
        summary=(f"No deployment fits: the largest is the nearest, and {reason}.", HINT),
    )
    return PlanReport(inputs=inputs, result=result, sources=model.sources, warnings=model.warnings)


def lacking(found: Sequence[Candidate], outcome: Outcome, limits: Limits) -> Iterator[str]:
    """What an empty answer lacks."""
    nearest = found[0]
    if outcome.met:
        return
    if nearest.simulated is not None:
        at = f"p{nearest.simulated.percentile:g}"
        yield f"No deployment keeps the targets at {at}, with as many replicas as there may be: the nearest are shown."
        return
    if not outcome.beyond:
        said = ", ".join(f"{one.target.upper()} by {one.excess}" for one in nearest.misses)
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
