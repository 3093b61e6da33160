"""A step of many tokens without a cache: autoregressive emulators, block diffusion, samplers that run a whole latent.

Every token of the step sees every other one, the weights are read once for all of them, and nothing is kept between
steps, unless `--context` says that the step attends over earlier ones. So the step is like a prefill: compute-bound at
batch 1 where its tokens exceed B* of its matmuls, which narrow matmuls never are.
"""

from dataclasses import replace

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain
from kvcalc.answers.passes import Pass, operators_of_pass, timed
from kvcalc.answers.question import Question
from kvcalc.answers.step.answer import thresholds
from kvcalc.answers.step.rows import intensity, operator_rows, with_shares
from kvcalc.counting.work import Operator, Step
from kvcalc.errors import KvcalcError
from kvcalc.formulas import matmul, step
from kvcalc.results.base import Figure
from kvcalc.results.data import data_of
from kvcalc.results.step import StepReport, StepResult
from kvcalc.timing.estimate import assumptions as timing_assumptions
from kvcalc.timing.estimate import operator_times


def step_of_tokens(question: Question, tokens: int) -> StepReport:
    """One step of `tokens` tokens of each of `--batch` sequences (1 unless given).

    Raises:
        KvcalcError: fewer than one token.
    """
    if tokens < 1:
        raise KvcalcError(f"--tokens-per-step: {tokens} is below 1", hint="give the tokens of one step")
    deployed = Deployed(question)
    batch, cached = question.workload.batch or 1, question.workload.context or 0
    work = Step(prompts=batch, tokens=tokens, start=cached, causal=False)
    operators = operators_of_pass(deployed, work)
    at = _with_cache(deployed, timed(deployed, work), operators)
    moved = at.weight_bytes + at.cache_bytes
    ridge = at.flops / at.compute_time_s / deployed.gpu.memory_bandwidth_bytes_per_s
    ideal = deployed.deployment.engine == "ideal"
    times = None if ideal else operator_times(operators, deployed.machine)
    rows = deployed.deployment.data_parallel_size * batch * tokens
    result = StepResult(
        model=deployed.model.name,
        gpu=deployed.gpu.title,
        gpus=deployed.deployment.gpus,
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
        limit="memory" if at.memory_time_s >= at.compute_time_s else "compute",
        operator_bound_s=at.operator_bound_s,
        estimate_s=at.range,
        output_tokens_per_s=rows / at.bound_s,
        operators=with_shares(operator_rows(deployed, operators, times)),
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
            *(() if ideal else timing_assumptions(deployed.machine)),
        ),
        sources=(*deployed.model.sources, *deployed.gpu.sources.values()),
    )


def _with_cache(deployed: Deployed, at: Pass, operators: tuple[Operator, ...]) -> Pass:
    """Earlier steps that the tokens attend to are read; the lessons' chunk leaves that out."""
    cache = sum(one.count * one.cache_bytes for one in operators)
    bandwidth = deployed.gpu.memory_bandwidth_bytes_per_s
    return replace(at, cache_bytes=cache, memory_time_s=step.memory_time(at.weight_bytes + cache, bandwidth))


def _working(deployed: Deployed, at: Pass, rows: int) -> tuple[Figure, ...]:
    bandwidth = deployed.gpu.memory_bandwidth_bytes_per_s
    moved = at.weight_bytes + at.cache_bytes
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
