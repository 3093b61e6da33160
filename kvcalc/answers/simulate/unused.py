"""Flags of `simulate` that change nothing: what runs, and on what, is the same without them.

A run is decided by its requests, its scheduler and its step times, so these are compared, and nothing is run again.
"""

import pickle
from collections.abc import Callable, Iterable
from dataclasses import replace

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.prompt_room import with_requests
from kvcalc.answers.question import Question
from kvcalc.answers.simulate.machine import Simulated, simulated
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.simulate.workload import Workload
from kvcalc.answers.unused import WHY, unused
from kvcalc.answers.verdict import verdict
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption
from kvcalc.specs.base import replace as with_values
from kvcalc.specs.checked import flag_of
from kvcalc.timing.passes import Pass

# What says which requests come, or what is done with them: each changes the answer wherever it is taken.
CERTAIN = frozenset({"requests", "request_rate", "trace", "lengths_from", "find_rate", "calibrate_from", "e2e_s"})
CLIENTS = frozenset({"concurrency"})  # it is in the requests
PROBES = (
    Step(decode=1, context=100), Step(decode=48, context=3000), Step(prompts=1, tokens=700),
    Step(decode=16, context=900, prompts=1, tokens=4000),
)  # fmt: skip
SHOWN = ("samples", "beam", "kv_offload_bytes")  # settings that the answer itself shows


def unused_flags(
    question: Question,
    settings: SimulateSettings,
    workload: Workload,
    given: Iterable[str],
    remade: Callable[[SimulateSettings], Workload],
) -> tuple[Assumption, ...]:
    """Each flag without which the same requests would run in the same way.

    Args:
        question: the deployment, with the fields that were given.
        settings: of the run.
        workload: its requests.
        given: fields of the settings that were given.
        remade: the requests of other settings.
    """
    asked = question if workload.requests.clients is None else question._replace(given=question.given - CLIENTS)
    found = list(unused(asked, lambda other: _run(other, settings, workload)))
    whole = None
    for name in sorted(set(given) - CERTAIN):
        left = with_values(settings, **{name: getattr(SimulateSettings(), name)})
        if left == settings:  # it says the default, which is honoured
            continue
        whole = whole or _run(question, settings, workload)
        try:
            same = _run(question, left, remade(left)) == whole
        except KvcalcError:
            continue
        if same:
            found.append(Assumption(name=flag_of(name), value=getattr(settings, name), why=WHY))
    return tuple(found)


def _run(question: Question, settings: SimulateSettings, workload: Workload) -> bytes:
    """Everything that decides a run and its answer."""
    deployed, requests = Deployed(with_requests(question, workload.longest)), workload.requests
    mean = (sum(requests.prompt) + sum(requests.output)) / len(requests)
    asked = question.workload
    targets = (asked.ttft_s, asked.tpot_s, settings.e2e_s)
    longest = max(map(sum, zip(requests.prompt, requests.output, strict=True)))
    limit = question.deployment.max_model_len or question.model.max_context
    return pickle.dumps((
        verdict(deployed, operating_point(deployed)),
        _told_apart(_scheduled(deployed, settings, mean), workload),
        _probes(deployed),
        replace(workload, requests=requests if requests.clients else replace(requests, think_s=0.0)),
        limit if workload.refused or (limit is not None and limit < longest) else None,
        settings.step_time_s, targets,
        settings.percentile if any(targets) else None,
        settings.ray if settings.find_rate else None,
        [getattr(settings, name) for name in SHOWN],
    ))  # fmt: skip


def _scheduled(deployed: Deployed, settings: SimulateSettings, mean: float) -> Simulated:
    """The replica; without the table of its step times, which takes longest to make, unless drafts are in it."""
    quick = settings if deployed.deployment.num_speculative_tokens else with_values(settings, step_time_s=1.0)
    return replace(simulated(deployed, quick, mean), front_s=deployed.front_end_beside(None))


def _probes(deployed: Deployed) -> list[float]:
    """Times of some steps: what they all are the same of, the others are too."""
    return [float(value) for step in PROBES for value in Pass(deployed.replica, step).estimate or ()]


def _told_apart(replica: Simulated, workload: Workload) -> Simulated:
    """Without what makes no difference here: a way to share out requests among one, or an order among equals."""
    settings = replica.settings
    if workload.requests.priority is None:
        settings = replace(settings, policy="fcfs")
    if workload.requests.chains is None:
        settings = replace(settings, prefix_caching=False)
    routing = replica.routing if replica.replicas > 1 else "least-loaded"
    longest = replica.longest if replica.reservation == "max" else None
    return replace(replica, settings=settings, routing=routing, longest=longest, assumptions=())
