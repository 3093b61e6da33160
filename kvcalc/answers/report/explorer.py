"""Batch and roofline: the decode step over batch, context and cache, each point as `curve` has it."""

from collections.abc import Iterator

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question
from kvcalc.answers.subject import roofline
from kvcalc.counting.cache import element_bytes
from kvcalc.engines import rules
from kvcalc.formulas.matmul import ridge_point
from kvcalc.results.report import Explorer, ExplorerPoint
from kvcalc.specs.base import replace
from kvcalc.specs.load import Workload
from kvcalc.specs.variants import architecture_variants

AS_IT_IS = "as it is"
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
CONTEXTS = (2048, 8192, 32768)
MOST_CACHES = 4


def explorer(question: Question) -> Explorer:
    """Every combination; what does not fit is marked.

    Raises:
        KvcalcError: the pool is not predicted, or the engine has no rule for a step.
    """
    deployed = Deployed(question)
    budget = deployed.budget
    points = tuple(
        point for cache, other in caches(question) for context in contexts(deployed)
        for point in _points(cache, other, context)
    )  # fmt: skip
    bandwidth, peak = deployed.gpu.memory_bandwidth_bytes_per_s, float(deployed.replica.peak_flops)
    return Explorer(
        memory_bytes_per_gpu=budget.requested,
        weight_bytes_per_gpu=budget.weights,
        other_bytes_per_gpu=max(0, budget.requested - budget.weights - (deployed.pool_bytes or 0)),
        ridge_flop_per_byte=ridge_point(peak, bandwidth),
        peak_flops=peak,
        bandwidth_bytes_per_s=bandwidth,
        tpot_target_s=question.workload.tpot_s,
        points=points,
    )


def caches(question: Question) -> Iterator[tuple[str, Question]]:
    """The deployment as it is, with the first smaller cache, and without each trick of its architecture."""
    yield AS_IT_IS, question
    here = element_bytes(Deployed(question).cache_dtype)
    smaller = [one for one in rules(question.deployment.engine).SMALLER_CACHES if element_bytes(one) < here]
    if smaller:
        deployment = replace(question.deployment, kv_cache_dtype=smaller[0])
        yield f"{smaller[0]} cache", question._replace(deployment=deployment)
    for name, model in architecture_variants(question.model)[: MOST_CACHES - 2]:
        yield name, question._replace(model=model)


def contexts(deployed: Deployed) -> tuple[int, ...]:
    """The usual ones and the one that is asked for, none above what the engine takes."""
    asked, longest = deployed.question.workload.context, deployed.max_model_len
    usual = [one for one in CONTEXTS if longest is None or one <= longest]
    return tuple(sorted({*usual, *([asked] if asked else []), *([] if usual or not longest else [longest])}))


def _points(cache: str, question: Question, context: int) -> Iterator[ExplorerPoint]:
    """One curve. The step is of sequences of the context, whatever lengths are served."""
    deployed = Deployed(question._replace(workload=Workload(context=context)))
    held, most = deployed.capacity, deployed.max_batch(context)
    each = 0 if held is None else held.needed_bytes(context)
    point = operating_point(deployed)
    for batch in BATCHES:
        speed = Performance(deployed, batch=batch, point=point)
        yield _row(cache, speed, each * batch, most)


def _row(cache: str, speed: Performance, stored_bytes: int, most: int | None) -> ExplorerPoint:
    step, found, batch = speed.step, speed.headline, speed.point.batch or 0
    assert step is not None
    assert found is not None
    cost = found.usd_per_million_output_tokens
    return ExplorerPoint(
        cache=cache,
        context=speed.point.context,
        batch=batch,
        fits=most is None or batch <= most,
        **roofline(step),
        estimate_s=None if speed.estimate is None else speed.estimate.step_time_s,
        output_tokens_per_s=found.output_tokens_per_s.value,
        usd_per_million_output_tokens=None if cost is None else cost.value,
        stored_bytes_per_gpu=stored_bytes,
        max_batch=most,
    )
