"""From what the user typed to a simulation."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kvcalc.answers.pasted import ask_served
from kvcalc.answers.question import Question
from kvcalc.answers.simulate.answer import Progress, simulate
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.lengths import lengths_of
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.answers.simulate.unused import unused_flags
from kvcalc.answers.simulate.workload import Workload, accepted, first_of, made, sampled
from kvcalc.errors import KvcalcError
from kvcalc.results.simulate import SimulateReport
from kvcalc.simulator.traces.read import read_trace
from kvcalc.simulator.traffic import requests_of
from kvcalc.specs.base import Assumption
from kvcalc.specs.base import replace as with_values
from kvcalc.specs.checked import checked, flag_of


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line: small, so that it can go to another process."""

    model: str
    flags: Mapping[str, Any]  # of every command
    lengths: Mapping[str, Any]  # `input_len` and `output_len` as typed
    own: Mapping[str, Any]  # of `simulate` alone


def simulate_from(
    asked: Asked,
    look: Callable[[Latencies], None] = lambda _: None,
    progress: Progress = lambda what, share: None,
    explain: bool = False,
) -> SimulateReport:
    """The simulation that flags ask for; `look` sees the run with the value's step times."""
    settings = checked(SimulateSettings, dict(asked.own))
    question = ask_served(asked.model, dict(asked.flags))
    workload = workload_of(question, settings, asked.lengths)
    report = simulate(question, settings, workload, look, progress, with_working=explain)
    if report.result.verdict is None:
        return report
    left = unused_flags(
        question, settings, workload, asked.own, lambda other: workload_of(question, other, asked.lengths)
    )
    return with_values(report, assumptions=(*report.assumptions, *left))


def workload_of(question: Question, settings: SimulateSettings, lengths: Mapping[str, Any]) -> Workload:
    """The requests that are asked for."""
    limit = question.deployment.max_model_len or question.model.max_context
    if settings.trace is not None:
        return _of_trace(settings, lengths, question.workload.concurrency, limit)
    clients = question.workload.concurrency
    found = lengths_of(settings, lengths, clients, limit)
    requests = requests_of(made(settings, found.prompt, found.output, clients))
    workload = accepted(sampled(requests, settings.samples, settings.seed), limit)
    return replace(workload, assumptions=found.assumptions, most=None if found.prompt is None else found.prompt.high)


AT_ONCE = Assumption(name="--arrivals", value="at-once", why="the trace has lengths and no times (arrival_s)")
MADE = ("request_rate", "arrivals", "burstiness", "ramp", "isl_sigma", "osl_sigma", "shared_prefix", "prefix_groups",
        "turns", "tool_calls", "lengths_from", "equal_lengths", "urgent", "seed")  # fmt: skip


def _of_trace(
    settings: SimulateSettings, lengths: Mapping[str, Any], clients: int | None, limit: int | None
) -> Workload:
    """The trace's requests, the first `--requests` of them; with clients, they are sent as answers come back."""
    given = [name for name in MADE if getattr(settings, name) != getattr(SimulateSettings(), name)] + list(lengths)
    if given:
        raise KvcalcError(
            f"{flag_of(given[0])} makes traffic, and --trace has its own", hint="leave one of the two out"
        )
    assert settings.trace is not None
    trace = read_trace(settings.trace, settings.time_scale)
    requests = trace.requests
    if settings.requests is not None:
        requests = first_of(requests, settings.requests)
    if clients is not None:
        requests = replace(requests, clients=clients, think_s=settings.think_s)
    requests = sampled(requests, settings.samples, settings.seed)
    found = accepted(requests, limit, trace.unordered, trace.format)
    return replace(found, assumptions=(AT_ONCE,)) if trace.format == "lengths" and clients is None else found
