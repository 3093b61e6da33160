"""`kvcalc report`: the answers of other commands for one deployment, and the frames of the lessons' six figures."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from kvcalc.answers.explain import labelled
from kvcalc.answers.plan.answer import plan
from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.answers.question import Question, ask
from kvcalc.answers.report import lines
from kvcalc.answers.report.explorer import explorer
from kvcalc.answers.report.pool import pool
from kvcalc.answers.report.prompts import prompts
from kvcalc.answers.report.rounds import rounds
from kvcalc.answers.report.sampling import sampling
from kvcalc.answers.report.schedules import schedules
from kvcalc.answers.size.answer import size
from kvcalc.errors import KvcalcError
from kvcalc.results.plan import PlanReport
from kvcalc.results.report import Omitted, ReportReport, ReportResult
from kvcalc.results.size import SizeReport
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.checked import checked

# Where no workload is given: a chat's lengths, a few requests a second, and the lessons' targets.
USUAL_LENGTHS = {"input_len": "1000", "output_len": "200"}
USUAL_RATE = {"request_rate": "5"}
USUAL_TARGETS = {"ttft_s": "1s", "tpot_s": "50ms"}
SHOWN = {"top": "5"}  # deployments, beside the Pareto front
OF_PLAN = ("users", "think_s", "request_rate", "requests_per_day", "peak_factor", "e2e_s")
TARGETS = frozenset(("ttft_s", "tpot_s"))
STEP_ONLY = ("context", "batch", "concurrency", "num_prompts")  # that a plan does not take

Part = TypeVar("Part")


class Asked(NamedTuple):
    """What was typed: flags of every command, and those of `plan` alone."""

    model: str
    flags: Mapping[str, Any]
    own: Mapping[str, Any]


def report(model: str, flags: Mapping[str, Any], own: Mapping[str, Any]) -> ReportReport:
    """Every part that this deployment has an answer to.

    Args:
        model: a name, as every command takes it.
        flags: by field, as typed.
        own: flags of `plan`'s load.

    Raises:
        KvcalcError: the deployment itself makes no sense.
    """
    asked = Asked(model, flags, own)
    question = ask(model, dict(flags))
    question = question._replace(given=question.given - TARGETS)  # the plan's and the figures'
    sized = size(question)
    omitted: list[Omitted] = []

    def part(name: str, make: Callable[[], Part]) -> Part | None:
        try:
            return make()
        except KvcalcError as error:
            omitted.append(Omitted(part=name, why=error.message))
            return None

    planned = part("plan", lambda: _plan(asked))
    blocks = part("pool", lambda: pool(question))
    result = ReportResult(
        model=sized.result.model,
        gpu=sized.result.gpu,
        gpus=sized.result.gpus,
        commands=_commands(asked, question, paged=blocks is not None),
        pool=blocks,
        size=sized.result,
        plan=None if planned is None else planned.result,
        explorer=part("explorer", lambda: explorer(question)),
        schedules=part("schedules", lambda: schedules(question)),
        sampling=sampling(),
        rounds=part("rounds", lambda: rounds(question)),
        prompts=part("prompts", lambda: prompts(question)),
        omitted=(),
    )
    return _with_envelope(asked, sized, planned, replace(result, omitted=tuple(omitted)))


def _with_envelope(asked: Asked, sized: SizeReport, planned: PlanReport | None, result: ReportResult) -> ReportReport:
    beside = () if planned is None else planned.assumptions
    return ReportReport(
        inputs=sized.inputs,
        result=result,
        figures=(*sized.figures, *(() if planned is None else labelled("plan", planned.figures))),
        assumptions=tuple(dict.fromkeys((*sized.assumptions, *_workload_assumed(asked), *beside))),
        sources=tuple(dict.fromkeys(sized.sources)),
        warnings=sized.warnings,
    )


def _plan(asked: Asked) -> PlanReport:
    flags, own = _planned(asked)
    return plan(asked.model, flags, checked(PlanSettings, own), with_working=True)


def _planned(asked: Asked) -> tuple[dict[str, Any], dict[str, Any]]:
    """The flags that `plan` is given: as typed, and the usual workload where none was."""
    given, own = dict(asked.flags), dict(asked.own)
    flags = {name: value for name, value in given.items() if name not in STEP_ONLY}
    if "input_len" not in given or "output_len" not in given:
        flags |= USUAL_LENGTHS
    if not TARGETS & given.keys() and "e2e_s" not in own:
        flags |= USUAL_TARGETS
    if not {"users", "request_rate", "requests_per_day"} & own.keys():
        own |= USUAL_RATE
    return flags, own | SHOWN


def _workload_assumed(asked: Asked) -> Iterator[Assumption]:
    flags, own = _planned(asked)
    typed = {**asked.flags, **asked.own, **SHOWN}
    added = {name: value for name, value in {**flags, **own}.items() if name not in typed}
    if added:
        said = lines.words(added)
        yield Assumption(name="plan's workload", value=said, why="not given: a chat's, with the lessons' targets")


def _commands(asked: Asked, question: Question, paged: bool) -> dict[str, str]:
    """The line that gives each part in a terminal."""
    flags, own = _planned(asked)
    bare = {name: value for name, value in asked.flags.items() if name not in TARGETS}
    return {
        "size": lines.line("size", asked.model, bare),
        "plan": lines.line("plan", asked.model, {**flags, **own}),
        **lines.of_figures(asked.model, bare, question),
        **(lines.of_pool(asked.model, bare, question) if paged else {}),
    }
