"""What a plan is asked, read from flags and settings."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvcalc.answers.plan.demand import Demand, demand
from kvcalc.answers.plan.money import ApiPrice, api_price
from kvcalc.answers.plan.search import Limits
from kvcalc.answers.plan.settings import CONTAINERS, PlanSettings, available
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.plan.traced import Traced, traced_load
from kvcalc.catalog.gpus import load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import IDEAL
from kvcalc.specs.load import Workload


class Asked(NamedTuple):
    """One plan's question."""

    model: str
    given: dict[str, list[Any]]  # flags by field, each with the values that are to be tried
    settings: PlanSettings
    workload: Workload
    demand: Demand
    targets: Targets
    limits: Limits
    api: ApiPrice | None
    traced: Traced


def asked_of(model: str, flags: Mapping[str, Any], settings: PlanSettings) -> Asked:
    """The question that flags ask.

    Raises:
        KvcalcError: no load, no lengths, or a flag that changes nothing without another.
    """
    given = {name: list(value) if isinstance(value, (list, tuple)) else [value] for name, value in flags.items()}
    if settings.emit is not None and settings.emit not in CONTAINERS:
        given.setdefault("engine", [settings.emit])
    if IDEAL in given.get("engine", ()):
        raise KvcalcError("--engine ideal serves nobody: a plan needs an engine that runs", hint="leave --engine out")
    if settings.seed and settings.percentile is None:
        raise KvcalcError("--seed changes nothing without --percentile", hint="give --percentile, or leave --seed out")
    traced = traced_load(settings.trace, given)
    workload, load = _workload(given, traced), demand(settings, traced.request_rate)
    return Asked(
        model=model,
        given=given | {"input_len": [workload.input_len], "output_len": [workload.output_len]},
        settings=settings,
        workload=workload,
        demand=load,
        targets=_targets(workload, settings),
        limits=_limits(settings),
        api=api_price(settings.api_price),
        traced=traced,
    )


def _targets(workload: Workload, settings: PlanSettings) -> Targets:
    assert workload.output_len is not None
    return Targets(workload.ttft_s, workload.tpot_s, settings.e2e_s, workload.output_len, settings.judge)


def _limits(settings: PlanSettings) -> Limits:
    there = {load_gpu(name).name: number for name, number in available(settings).items()}
    return Limits(there or None, settings.max_usd_per_hour)


def _workload(given: dict[str, list[Any]], traced: Traced) -> Workload:
    """What each request is like; both lengths must be known."""
    names = ("input_len", "output_len", "prefix_hit", "equal_lengths", "ttft_s", "tpot_s")
    found = checked(Workload, {name: given[name][0] for name in names if name in given})
    if traced.input_len is not None:
        return replace(found, input_len=traced.input_len, output_len=traced.output_len)
    if found.input_len is None or found.output_len is None:
        raise KvcalcError("how long are the requests?", hint="give --isl and --osl, or a --trace")
    return found
