"""A deployment that was found, with everything a reader asks of it."""

import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from kvcalc.answers.command import command_for, printed
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import ENDS, Performance
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.fleet import Fleet
from kvcalc.answers.plan.money import HOURS_A_MONTH, Rates, money
from kvcalc.answers.plan.search import Found
from kvcalc.answers.verdict import verdict
from kvcalc.catalog.prices import bill
from kvcalc.results.base import Range
from kvcalc.results.performance import Serving
from kvcalc.results.plan import Candidate, FewerReplicas, PlanMiss, SimulatedPlan
from kvcalc.specs.base import field_names
from kvcalc.specs.checked import flag_of
from kvcalc.specs.deployment import USUAL_ENGINE, Deployment

SHORT = {"tensor_parallel_size": "TP", "pipeline_parallel_size": "PP", "data_parallel_size": "DP",
         "enable_expert_parallel": "EP"}  # fmt: skip


class Held(NamedTuple):
    """A deployment whose requests went through the simulator."""

    found: Found
    figures: SimulatedPlan
    fewer: FewerReplicas | None  # the most replicas that break the percentile; None: those the means take hold it


def candidate(found: Found, asked: Asked, pareto: bool, held: Held | None = None) -> Candidate:
    """The answer's row.

    Args:
        found: the deployment and its replicas.
        asked: the plan's question.
        pareto: whether no other is both cheaper and faster.
        held: what its requests got in the simulator.
    """
    fleet, replicas, point = found.fleet, found.replicas, found.point
    deployed = fleet.deployed
    speed = Performance(deployed, concurrency=point.clients)
    serving, steady = speed.serving, speed.steady
    assert serving is not None
    assert steady is not None
    flags = flags_of(found)
    command, fit = command_for(deployed.question), verdict(deployed, speed.point)
    return Candidate(
        deployment=flags,
        gpu=deployed.gpu.title,
        layout=layout_of(flags),
        fits=fit.fits,
        fit=fit.fit,
        reason=fit.reason,
        weights=deployed.model.quantization or deployed.model.dtype,
        cache=deployed.cache_dtype,
        drafts=deployed.deployment.num_speculative_tokens,
        replicas=replicas,
        gpus=deployed.deployment.gpus * replicas,
        concurrency=point.clients,
        **_paid(found, asked, serving),
        ttft_s=serving.ttft_s,
        tpot_s=serving.tpot_s,
        e2e_s=Range(**{end: float(steady.whole_s(serving.output_len, end)) for end in ENDS}),
        output_tokens_per_s=_times(serving.output_tokens_per_s, replicas),
        output_tokens_per_s_per_gpu=serving.output_tokens_per_s_per_gpu,
        requests_per_s=replicas * point.rate,
        meets=point.kept,
        misses=misses(fleet, point.clients),
        **_more_load(found),
        next_cheaper=(_fewer(found) if held is None or held.fewer is None else held.fewer) if point.kept else None,
        simulated=None if held is None else held.figures,
        pareto=pareto,
        size=_size(asked.model, flags, deployed, point.clients),
        command=printed(command, deployed.question.deployment, asked.model),
    )


def _paid(found: Found, asked: Asked, serving: Serving) -> dict[str, Any]:
    """The bill of all replicas, which may fill machines better than one alone."""
    fleet, replicas = found.fleet, found.replicas
    deployed = fleet.deployed
    paid = bill(deployed.gpu, deployed.deployment, replicas)
    hour, cost = paid.usd_per_hour, serving.usd_per_million_output_tokens
    shared = paid.gpus / (replicas * deployed.bill.gpus)
    most = fleet.at(fleet.largest() if found.kept else found.point.clients).rate
    rates = Rates(asked.demand.request_rate or replicas * found.point.rate, most, replicas)
    return {
        "gpus_billed": paid.gpus,
        "usd_per_hour": hour,
        "usd_per_month": None if hour is None else HOURS_A_MONTH * hour,
        "usd_per_million_output_tokens": cost if cost is None or shared == 1 else _times(cost, shared),
        "money": money(asked.settings, asked.api, serving, hour, rates),
        "price": paid.price,
    }


def flags_of(found: Found) -> dict[str, Any]:
    """By field, what a command line says of the deployment; numbers as such."""
    always: dict[str, Any] = {"gpu": None, "engine": USUAL_ENGINE, "tensor_parallel_size": 1}
    given = {
        name: value for name, value in found.choice.flags.items() if name in always or name in field_names(Deployment)
    }
    return {name: _number(value) for name, value in (always | given).items()}


def _number(value: Any) -> Any:
    """A whole number, or numbers, that were typed; else as it is."""
    if isinstance(value, tuple):
        return [float(one) for one in value]
    return int(value) if str(value).isdecimal() else value


def layout_of(flags: Mapping[str, Any]) -> str:
    """How a replica is spread over GPUs, in short.

    >>> layout_of({"gpu": "h100-sxm", "tensor_parallel_size": 8, "enable_expert_parallel": True})
    'TP8 EP'
    >>> layout_of({"tensor_parallel_size": 1, "data_parallel_size": 8, "enable_expert_parallel": True})
    'DP8 EP'
    """
    given = {name: flags[field] for field, name in SHORT.items() if flags.get(field, False) is not False}
    if given.get("TP") == 1 and len(given) > 1:
        del given["TP"]
    return " ".join(name if value is True else f"{name}{value}" for name, value in given.items())


def misses(fleet: Fleet, clients: int) -> tuple[PlanMiss, ...]:
    """The targets that a replica with so many clients does not keep."""
    limits = {"ttft": fleet.targets.ttft_s, "tpot": fleet.targets.tpot_s, "e2e": fleet.targets.e2e_s}
    return tuple(
        PlanMiss(target=name, by=use - 1, have_s=use * (limits[name] or 0))
        for name, use in fleet.at(clients).uses.items()
        if use > 1
    )


def _more_load(found: Found) -> dict[str, Any]:
    """What breaks first under more load, and how much more is carried until then."""
    fleet = found.fleet
    if not found.kept:
        return {"binds": max(found.point.uses, key=found.point.uses.__getitem__), "headroom": 0.0}
    most = fleet.largest()
    if most < fleet.most:
        uses = fleet.at(most + 1).uses
        binds = max(uses, key=uses.__getitem__)
    else:
        binds = "max_num_seqs" if fleet.room is not None and fleet.room == fleet.deployed.max_num_seqs else "memory"
    return {"binds": binds, "headroom": fleet.at(most).carried * found.replicas / fleet.demand.total - 1}


def _fewer(found: Found) -> FewerReplicas | None:
    """One replica less, with the same load."""
    fleet, replicas = found.fleet, found.replicas - 1
    if not replicas:
        return None
    return fewer_replicas(fleet, replicas, misses(fleet, fleet.share(replicas)))


def fewer_replicas(
    fleet: Fleet, replicas: int, missed: tuple[PlanMiss, ...], percentile: float | None = None
) -> FewerReplicas:
    """So many replicas, which are too few, with what they cost and miss."""
    paid = bill(fleet.deployed.gpu, fleet.deployed.deployment, replicas)
    clients = fleet.share(replicas)
    return FewerReplicas(
        replicas=replicas, concurrency=clients, usd_per_hour=paid.usd_per_hour, misses=missed, percentile=percentile
    )


def _times(one: Range, factor: float) -> Range:
    return Range(value=factor * one.value, low=factor * one.low, high=factor * one.high)


def _size(asked: str, flags: dict[str, Any], deployed: Deployed, clients: int) -> str:
    """The command that gives the same figures."""
    workload = deployed.question.workload
    load = {"input_len": workload.input_len, "output_len": workload.output_len, "prefix_hit": workload.prefix_hit,
            "equal_lengths": workload.equal_lengths or None, "concurrency": clients}  # fmt: skip
    words = ["kvcalc", "size", asked]
    for name, value in (flags | {key: value for key, value in load.items() if value is not None}).items():
        words += said(name, value)
    return shlex.join(words)


def said(name: str, value: Any) -> list[str]:
    """A field as its flag takes it.

    >>> said("enable_prefix_caching", False), said("acceptance", [0.8, 0.5])
    (['--no-enable-prefix-caching'], ['--acceptance', '0.8', '--acceptance', '0.5'])
    """
    flag = flag_of(name)
    if isinstance(value, bool):
        return [flag if value else f"--no-{flag[2:]}"]
    return [word for one in (value if isinstance(value, list) else [value]) for word in (flag, str(one))]
