"""A step of many tokens without a cache: autoregressive emulators, block diffusion, samplers that run a whole latent.

Every token of the step sees every other one, the weights are read once for all of them, and nothing is kept between
steps, unless `--context` says that the step attends over earlier ones. So the step is like a prefill: compute-bound at
batch 1 where its tokens exceed B* of its matmuls, which narrow matmuls never are.
"""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain
from kvcalc.answers.load import OperatingPoint
from kvcalc.answers.performance import range_of
from kvcalc.answers.question import Question
from kvcalc.answers.step.answer import thresholds
from kvcalc.answers.step.rows import intensity, operator_rows, with_shares
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.formulas import matmul, step
from kvcalc.results.base import Figure
from kvcalc.results.data import data_of
from kvcalc.results.step import StepReport, StepResult
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
    found = verdict(deployed, OperatingPoint(batch, max(1, cached), max(1, cached)))
    at = Pass(deployed.replica, Step(prompts=batch, tokens=tokens, start=cached, causal=False))
    moved = at.bytes
    ridge = at.flops / at.compute_time_s / deployed.gpu.memory_bandwidth_bytes_per_s
    times = None if at.replica.ideal else at.operator_times
    rows = deployed.deployment.data_parallel_size * batch * tokens
    result = StepResult(
        model=deployed.model.name,
        gpu=deployed.gpu.title,
        gpus=deployed.deployment.gpus,
        stages=deployed.deployment.pipeline_parallel_size,
        fits=found.fits,
        fit=found.fit,
        reason=found.reason,
        batch=batch,
        context=cached,
        tokens_per_step=tokens,
        bytes=moved,
        weight_bytes=at.weight_bytes,
        cache_bytes=at.cache_bytes,
        flops=at.flops,
        intensity_flop_per_byte=at.flops / moved,
        intensity=intensity(at.flops, at.attention_flops, at.weight_bytes, at.cache_bytes),
        ridge_flop_per_byte=ridge,
        memory_time_s=at.memory_time_s,
        compute_time_s=at.compute_time_s,
        bound_s=at.bound_s,
        limit=at.limit,
        operator_bound_s=at.operator_bound_s,
        estimate_s=None if at.estimate is None else range_of(at.estimate),
        output_tokens_per_s=rows / at.bound_s,
        operators=with_shares(operator_rows(deployed, at.operators, times)),
        matmul_thresholds=thresholds(deployed.model, ridge),
    )
    return StepReport(
        inputs={
            "model": deployed.model.name,
            "gpu": deployed.gpu.name,
            **data_of(deployed.deployment),
            "kv_cache_dtype": deployed.cache_dtype,
            "batch": batch,
            "context": cached,
            "tokens_per_step": tokens,
        },
        result=result,
        figures=_working(deployed, at, batch * tokens),
        assumptions=(
            *question.assumptions,
            *at.assumptions,
            *unused(question, lambda other: step_of_tokens(other, tokens).result),
        ),
        sources=(*deployed.model.sources, *deployed.gpu.sources.values()),
    )


def _working(deployed: Deployed, at: Pass, rows: int) -> tuple[Figure, ...]:
    bandwidth = deployed.gpu.memory_bandwidth_bytes_per_s
    moved = at.bytes
    peak = at.flops / at.compute_time_s
    return (
        explain(
            step.decode_step_flops,
            name="FLOPs of the step",
            parameters=(at.flops - at.attention_flops) / (2 * rows),
            batch=rows,
            attention_flops_per_sequence=at.attention_flops / rows,
        ),
        explain(step.intensity, name="intensity", flops=at.flops, bytes_moved=moved),
        explain(matmul.ridge_point, name="ridge point", peak_flops=peak, bandwidth_bytes_per_s=bandwidth),
        explain(step.memory_time, name="memory time", bytes_moved=moved, bandwidth_bytes_per_s=bandwidth),
        explain(step.compute_time, name="compute time", flops=at.flops, peak_flops=peak),
        explain(step.roofline_time, name="bound", memory_time_s=at.memory_time_s, compute_time_s=at.compute_time_s),
    )
