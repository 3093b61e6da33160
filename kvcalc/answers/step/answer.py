"""`kvcalc step`: one decode step taken apart."""

from kvcalc.answers.assumptions import time_assumptions
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import at_least_one
from kvcalc.answers.paging import paging_of
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question
from kvcalc.answers.step.rows import intensity, operator_rows, sums, with_shares
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.answers.working import peak_of, working
from kvcalc.formulas import matmul
from kvcalc.results.data import data_of
from kvcalc.results.step import MatmulThreshold, OperatorRow, StepReport, StepResult
from kvcalc.specs.model import ModelSpec, Tensor
from kvcalc.timing.passes import Pass


def step(question: Question, with_working: bool = True) -> StepReport:
    """Bytes, FLOPs, intensity and times of one step on one GPU; `with_working`: and the figures behind `--explain`."""
    deployed = Deployed(question)
    found = verdict(deployed, Performance(deployed).point)
    point, assumed = at_least_one(Performance(deployed).point)
    speed = Performance(deployed, batch=point.batch)
    at, bound = speed.step, speed.bound
    assert at is not None
    assert bound is not None
    ridge = matmul.ridge_point(peak_of(at), deployed.gpu.memory_bandwidth_bytes_per_s)
    result = StepResult(
        model=deployed.model.name,
        gpu=deployed.gpu.title,
        gpus=deployed.deployment.gpus,
        stages=deployed.deployment.pipeline_parallel_size,
        fits=found.fits,
        fit=found.fit,
        reason=found.reason,
        batch=point.batch or 1,
        context=point.mean_context,
        bytes=at.bytes,
        weight_bytes=at.weight_bytes,
        cache_bytes=at.cache_bytes,
        flops=at.flops,
        intensity_flop_per_byte=at.flops / at.bytes,
        intensity=intensity(at.flops, at.attention_flops, at.weight_bytes, at.cache_bytes),
        ridge_flop_per_byte=ridge,
        memory_time_s=at.memory_time_s,
        compute_time_s=at.compute_time_s,
        bound_s=at.bound_s,
        limit=at.limit,
        operator_bound_s=at.operator_bound_s,
        estimate_s=None if speed.estimate is None else speed.estimate.step_time_s,
        output_tokens_per_s=bound.output_tokens_per_s,
        operators=_operators(deployed, at),
        matmul_thresholds=thresholds(deployed.model, ridge),
        serving=speed.serving,
        paging=paging_of(deployed, point),
    )
    return StepReport(
        inputs={
            "model": deployed.model.name,
            "gpu": deployed.gpu.name,
            **data_of(deployed.deployment),
            "kv_cache_dtype": deployed.cache_dtype,
            "batch": result.batch,
            "context": result.context,
        },
        result=result,
        figures=(*working(speed), *sums(result.operators)) if with_working else (),
        assumptions=(
            *question.assumptions,
            *assumed,
            *time_assumptions(deployed),
            *speed.assumptions,
            *unused(question, lambda other: step(other, with_working=False).result),
        ),
        sources=(*deployed.model.sources, *deployed.gpu.sources.values()),
        warnings=speed.warnings,
    )


def _operators(deployed: Deployed, at: Pass) -> tuple[OperatorRow, ...]:
    """Every operator; last, for a real engine, what the engine itself adds."""
    if at.replica.ideal:
        return with_shares(operator_rows(deployed, at.operators, None))
    engine = OperatorRow(
        name="engine", count=1, bytes=0, flops=0, time_s=0, limit="engine", estimate_s=float(at.engine_s)
    )
    return with_shares((*operator_rows(deployed, at.operators, at.operator_times), engine))


def thresholds(model: ModelSpec, ridge: float) -> tuple[MatmulThreshold, ...]:
    """B* of every shape of matmul in the model, the text decoder's layers first."""
    found: dict[tuple[int, int], list[str]] = {}
    bytes_per_weight: dict[tuple[int, int], float] = {}
    for tensor in _matmuls(model):
        outputs, inputs = tensor.shape[-2:]
        shape = (inputs, outputs)
        name = tensor.name.removesuffix(".weight").rsplit(".", 1)[-1]
        names = found.setdefault(shape, [])
        if name not in names:
            names.append(name)
        bytes_per_weight[shape] = tensor.format.bits / 8
    return tuple(
        MatmulThreshold(
            name=", ".join(names),
            d=d,
            f=f,
            rows=matmul.matmul_threshold_rows(ridge, d, f, bytes_per_weight=bytes_per_weight[(d, f)]),
        )
        for (d, f), names in found.items()
    )


def _matmuls(model: ModelSpec) -> list[Tensor]:
    layers = [tensor for group in model.groups for tensor in group.tensors]
    return [tensor for tensor in (*layers, *model.tensors) if tensor.matmul and len(tensor.shape) >= 2]
