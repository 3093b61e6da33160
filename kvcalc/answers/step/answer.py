"""`kvcalc step`: one decode step taken apart."""

from kvcalc.answers.assumptions import time_assumptions
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import at_least_one
from kvcalc.answers.paging import paging_of
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question
from kvcalc.answers.serving_working import serving_working
from kvcalc.answers.step.result import step_result
from kvcalc.answers.step.rows import rows_of, sums
from kvcalc.answers.subject import inputs_of
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.answers.working import working
from kvcalc.results.step import StepReport
from kvcalc.specs.base import replace


def step(question: Question, with_working: bool = True) -> StepReport:
    """Bytes, FLOPs, intensity and times of one step on one GPU; `with_working`: and the figures behind `--explain`."""
    deployed = Deployed(question)
    found = verdict(deployed, Performance(deployed).point)
    point, assumed = at_least_one(Performance(deployed).point)
    speed = Performance(deployed, batch=point.batch)
    at = speed.step
    assert at is not None
    result = replace(
        step_result(deployed, point, found, at, operators=rows_of(deployed, at)),
        serving=speed.serving,
        paging=paging_of(deployed, point),
    )
    return StepReport(
        inputs=inputs_of(deployed, batch=result.batch, context=result.context),
        result=result,
        figures=(*working(speed), *sums(result.operators), *serving_working(speed)) if with_working else (),
        assumptions=(
            *question.assumptions,
            *assumed,
            *time_assumptions(deployed),
            *speed.assumptions,
            *unused(question, lambda other: step(other, with_working=False).result),
        ),
        sources=deployed.sources,
        warnings=speed.warnings,
    )
