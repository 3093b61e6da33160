"""`kvcalc simulate`: requests through a scheduler, with the estimate's range around every figure."""

import dataclasses
from collections.abc import Callable
from typing import Any

from kvcalc.answers.assumptions import assumptions_of
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.prompt_room import refusals, with_requests
from kvcalc.answers.question import Question
from kvcalc.answers.simulate.figures import (
    Latencies,
    by_priority,
    gaps,
    meets,
    percentile,
    percentiles,
    ranged,
    spread,
)
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.offload import offload_of
from kvcalc.answers.simulate.opening import opening_warnings
from kvcalc.answers.simulate.rate import Targets, at_rate, rates
from kvcalc.answers.simulate.runs import capacities, run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.simulate.sharing import beams_of, samples_of
from kvcalc.answers.simulate.unfit import unserved
from kvcalc.answers.simulate.use import use_of
from kvcalc.answers.simulate.verdict import queued_share, verdict_of
from kvcalc.answers.simulate.workload import Workload
from kvcalc.answers.speculate.serving import drafts_without_times
from kvcalc.answers.subject import inputs_of, subject
from kvcalc.answers.verdict import verdict
from kvcalc.errors import KvcalcError
from kvcalc.results.base import Figure, Range
from kvcalc.results.data import data_of
from kvcalc.results.simulate import (
    Calibration,
    HighestRate,
    RatePoint,
    SharedBlocks,
    SimulateReport,
    SimulateResult,
    Target,
    Value,
)
from kvcalc.simulator.endless import endless_hit_rate
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.traffic import rate_of
from kvcalc.specs.base import Assumption, replace

Progress = Callable[[str, float], None]


def simulate(
    question: Question,
    settings: SimulateSettings,
    workload: Workload,
    look: Callable[[Latencies], None] = lambda _: None,
    progress: Progress = lambda what, share: None,
    with_working: bool = False,
) -> SimulateReport:
    """Latencies, goodput and use of a workload on this deployment.

    Args:
        question: the deployment, and targets.
        settings: the scheduler's switches.
        workload: requests that run, and how many do not.
        look: sees the run with the value's step times.
        progress: is told what is done now, and the share that is done.
        with_working: with the figures behind `--explain`.
    """
    question = with_requests(question, workload.longest)
    deployed = Deployed(question)
    none = unserved(deployed, settings, workload)
    if none is not None:
        return _nothing_runs(deployed, settings, workload, none)
    requests = workload.requests
    mean = (sum(requests.prompt) + sum(requests.output)) / len(requests)
    replica = simulated(deployed, settings, mean)
    factors = (1.0, replica.low, replica.high) if replica.ranged else (1.0,)
    progress("looking for the highest rate" if settings.find_rate else "simulating", 0.0)
    found = _highest_rate(deployed, settings, replica, requests, factors)
    if found is not None:
        requests = at_rate(requests, _value(found.request_rate))
        workload = dataclasses.replace(workload, requests=requests)
    runs = []
    for done, factor in enumerate(factors, 1):
        runs.append(Latencies(run(replica, requests, factor), requests))
        progress("simulating", done / (len(factors) + 1))
    look(runs[0])
    progress("what can be served", len(factors) / (len(factors) + 1))
    result = _result(deployed, settings, workload, replica, runs, factors)
    return SimulateReport(
        inputs=_inputs(deployed, settings, workload),
        result=replace(result, highest_rate=found),
        figures=_working(runs, replica, result) if with_working else (),
        assumptions=_assumptions(deployed, settings, workload, replica),
        sources=deployed.sources,
        warnings=(*_warnings(deployed, result), *opening_warnings(runs[0])),
    )


def _nothing_runs(
    deployed: Deployed, settings: SimulateSettings, workload: Workload, none: SimulateResult
) -> SimulateReport:
    """Whether it fits is the answer then."""
    return SimulateReport(
        inputs=_inputs(deployed, settings, workload),
        result=none,
        assumptions=tuple(dict.fromkeys((*deployed.question.assumptions, *assumptions_of(deployed)))),
        sources=deployed.sources,
        warnings=(*deployed.model.warnings, f"this does not fit: {none.reason}"),
    )


def _working(runs: list[Latencies], replica: Simulated, result: SimulateResult) -> tuple[Figure, ...]:
    from kvcalc.answers.simulate.working import simulate_working

    return tuple(simulate_working(runs, replica, result))


def _highest_rate(
    deployed: Deployed, settings: SimulateSettings, replica: Simulated, requests: Requests, factors: tuple[float, ...]
) -> HighestRate | None:
    if not settings.find_rate:
        return None
    asked = deployed.question.workload
    targets = Targets(asked.ttft_s, asked.tpot_s, settings.e2e_s, settings.percentile)
    if targets[:3] == (None, None, None):
        raise KvcalcError("--find-rate: which targets must be kept?", hint="give --ttft, --tpot or --e2e")
    found = rates(replica, requests, targets, factors, settings.ray)
    points = tuple(
        RatePoint(request_rate=one.rate, kept=one.kept, goodput_requests_per_s=one.goodput) for one in found[0][1]
    )
    if not found[0][0]:
        raise KvcalcError(
            "--find-rate: the targets are not kept at any rate", hint="a single request is too slow: relax the targets"
        )
    return HighestRate(request_rate=ranged([rate for rate, _ in found]), points=points)


def _value(found: Value) -> float:
    return found.value if isinstance(found, Range) else found or 0.0


def _result(deployed: Deployed, settings: SimulateSettings, workload: Workload, replica: Simulated,
            runs: list[Latencies], factors: tuple[float, ...]) -> SimulateResult:  # fmt: skip
    requests = workload.requests
    rate = rate_of(requests)
    loads: list[float | None] = [None] * len(factors)
    if rate is not None:
        loads = [rate / one for one in capacities(replica, requests, factors)]
    verdicts = [verdict_of(one, load) for one, load in zip(runs, loads, strict=True)]
    tokens = sum(requests.output)
    return SimulateResult(
        **subject(deployed, verdict(deployed, operating_point(deployed))),
        engine=deployed.deployment.engine,
        **workload.figures(deployed.deployment.data_parallel_size),
        duration_s=spread(runs, lambda one: one.span_s),
        output_tokens_per_s=spread(runs, lambda one: tokens / one.span_s),
        total_tokens_per_s=spread(runs, lambda one: (tokens + sum(requests.prompt)) / one.span_s),
        requests_per_s=spread(runs, lambda one: len(requests) / one.span_s),
        ttft_s=percentiles(runs, "ttft"),
        tpot_s=percentiles(runs, "tpot"),
        itl_s=gaps(runs),
        e2e_s=percentiles(runs, "e2e"),
        goodput_requests_per_s=spread(runs, lambda one: _good_rate(deployed, settings, one)),
        targets=_targets(deployed, settings, runs),
        by_priority=by_priority(runs),
        **use_of(runs, replica),
        endless_hit_rate=endless_hit_rate(requests),
        offload=offload_of(deployed, settings, replica, runs[0]),
        load=ranged(loads),
        capacity_requests_per_s=ranged([None if rate is None or load is None else rate / load for load in loads]),
        queued_share=spread(runs, queued_share),
        verdict=verdicts[0],
        verdict_low=verdicts[1 if len(runs) > 1 else 0],
        verdict_high=verdicts[-1],
        sharing=_sharing(settings, requests, replica),
        calibration=_calibration(deployed, settings, replica, requests),
    )


def _sharing(settings: SimulateSettings, requests: Requests, replica: Simulated) -> SharedBlocks | None:
    count = len(requests)
    prompt, output = round(sum(requests.prompt) / count), round(sum(requests.output) / count)
    size = replica.settings.block_size
    if settings.beam > 1:
        return beams_of(prompt, output, size, settings.beam, settings.seed)
    return samples_of(prompt, output, size, settings.samples) if settings.samples > 1 else None


def _calibration(
    deployed: Deployed, settings: SimulateSettings, replica: Simulated, requests: Requests
) -> Calibration | None:
    if settings.calibrate_from is None:
        return None
    from kvcalc.answers.simulate.calibrate import calibration

    return calibration(settings.calibrate_from, replica, requests, lambda one: _good_rate(deployed, settings, one))


def _good_rate(deployed: Deployed, settings: SimulateSettings, one: Latencies) -> float:
    asked = deployed.question.workload
    return float(meets(one, asked.ttft_s, asked.tpot_s, settings.e2e_s).sum()) / one.span_s


def _targets(deployed: Deployed, settings: SimulateSettings, runs: list[Latencies]) -> tuple[Target, ...]:
    asked = deployed.question.workload
    limits = (("ttft", asked.ttft_s), ("tpot", asked.tpot_s), ("e2e", settings.e2e_s))
    return tuple(
        Target(
            name=name,
            limit_s=limit,
            percentile=settings.percentile,
            have_s=spread(runs, lambda one, n=name: percentile(getattr(one, n), settings.percentile)),  # type: ignore[misc]
            met_share=spread(runs, lambda one, n=name, t=limit: float((~(getattr(one, n) > t)).mean())),  # type: ignore[misc]
        )
        for name, limit in limits
        if limit is not None
    )  # fmt: skip


def _inputs(deployed: Deployed, settings: SimulateSettings, workload: Workload) -> dict[str, Any]:
    return inputs_of(
        deployed,
        max_model_len=deployed.max_model_len,
        max_num_batched_tokens=deployed.max_num_batched_tokens,
        **data_of(settings) | {"requests": workload.given, "clients": workload.requests.clients},
    )


def _assumptions(
    deployed: Deployed, settings: SimulateSettings, workload: Workload, replica: Simulated
) -> tuple[Assumption, ...]:
    found = (*deployed.question.assumptions, *workload.assumptions, *assumptions_of(deployed), *replica.assumptions)
    found = tuple(dict.fromkeys(found))
    if deployed.gpu.calibration is None:
        return found
    from kvcalc.answers.calibrate.both import with_figures
    from kvcalc.answers.simulate.without import without_calibration

    return with_figures(found, deployed, lambda plain: without_calibration(plain, settings, workload.requests))


def _warnings(deployed: Deployed, result: SimulateResult) -> tuple[str, ...]:
    doubt = deployed.engine.doubt(deployed.gpu)
    found = [
        *(() if doubt is None else (doubt,)),
        *deployed.model.warnings,
        *deployed.budget.warnings,
        *drafts_without_times(deployed),
        *refusals(deployed.question),
    ]
    if result.refused:
        found.append(f"{result.refused} of {result.requests} requests are refused: no tokens, or above max_model_len")
    if result.unordered:
        found.append(f"{result.unordered} rows of the trace came before an earlier one; sorted by time")
    if result.verdict == "overloaded":
        found.append("more requests arrive than are served: the percentiles hold for this number of requests only")
    if result.reason is not None and result.fits is False:
        found.append(f"this does not fit: {result.reason}")
    return tuple(found)
