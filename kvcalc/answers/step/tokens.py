"""A step of many tokens without a cache: autoregressive emulators, block diffusion, samplers that run a whole latent.

Every token of the step sees every other one, the weights are read once for all of them, and nothing is kept between
steps, unless `--context` says that the step attends over earlier ones. So the step is like a prefill: compute-bound at
batch 1 where its tokens exceed B* of its matmuls, which narrow matmuls never are.
"""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint
from kvcalc.answers.question import Question
from kvcalc.answers.step.result import step_result
from kvcalc.answers.step.rows import operator_rows, with_shares
from kvcalc.answers.subject import inputs_of
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.answers.working import roofline_figures
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.results.step import StepReport
from kvcalc.specs.base import replace
from kvcalc.timing.passes import Pass


def step_of_tokens(question: Question, tokens: int) -> StepReport:
    """One step of `tokens` tokens of each of `--batch` sequences (1 unless given).

    Raises:
        KvcalcError: fewer than one token.
    """
    if tokens < 1:
        raise KvcalcError(f"--tokens-per-step: {tokens} is below 1", hint="give the tokens of one step")
    deployed = Deployed(question)
    batch, cached = question.workload.batch or 1, question.workload.context or 0
    point = OperatingPoint(batch, max(1, cached), cached)
    at = Pass(deployed.replica, Step(prompts=batch, tokens=tokens, start=cached, causal=False))
    times = None if at.replica.ideal else at.operator_times
    operators = with_shares(operator_rows(deployed, at.operators, times))
    result = step_result(deployed, point, verdict(deployed, point), at, operators, tokens)
    return StepReport(
        inputs=inputs_of(deployed, batch=batch, context=cached, tokens_per_step=tokens),
        result=replace(result, tokens_per_step=tokens),
        figures=roofline_figures(at, batch * tokens, deployed.gpu.memory_bandwidth_bytes_per_s),
        assumptions=(
            *question.assumptions,
            *at.assumptions,
            *unused(question, lambda other: step_of_tokens(other, tokens).result),
        ),
        sources=deployed.sources,
    )
