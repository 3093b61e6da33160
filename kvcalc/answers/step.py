"""`kvcalc step`: one decode step taken apart."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.lesson import lesson_step, working
from kvcalc.answers.question import Question
from kvcalc.errors import KvcalcError
from kvcalc.formulas import matmul
from kvcalc.formulas import step as formulas
from kvcalc.reports.step import Intensity, MatmulThreshold, StepReport, StepResult
from kvcalc.specs.model import ModelSpec, Tensor


def step(question: Question) -> StepReport:
    """Bytes, FLOPs, intensity and times of one step on one GPU."""
    deployed = Deployed(question)
    point = deployed.operating_point()
    if point.batch is None:
        raise KvcalcError("nothing fits, so there is no step", hint="give --batch to take a step apart all the same")
    layout = deployed.deployment.layout
    terms = lesson_step(
        deployed.model, deployed.gpu, layout, point.batch, point.mean_context, deployed.cache_dtype, deployed.peak_flops
    )
    cache = terms.batch * terms.cache_bytes_per_sequence
    ridge = matmul.ridge_point(terms.peak_flops, terms.bandwidth_bytes_per_s)
    weight_share = formulas.share(terms.weight_bytes, terms.bytes)
    result = StepResult(
        model=deployed.model.name,
        gpu=deployed.gpu.title,
        gpus=deployed.deployment.gpus,
        batch=point.batch,
        context=point.mean_context,
        bytes=terms.bytes,
        weight_bytes=terms.weight_bytes,
        cache_bytes=cache,
        flops=terms.flops,
        intensity_flop_per_byte=formulas.intensity(terms.flops, terms.bytes),
        intensity=Intensity(
            weight_share=weight_share,
            cache_share=1 - weight_share,
            weight_flop_per_byte=2 * terms.parameters * terms.batch / terms.weight_bytes,
            cache_flop_per_byte=terms.attention_flops_per_sequence / terms.cache_bytes_per_sequence
            if terms.cache_bytes_per_sequence
            else 0.0,
        ),
        ridge_flop_per_byte=ridge,
        memory_time_s=terms.memory_time_s,
        compute_time_s=terms.compute_time_s,
        bound_s=terms.bound_s,
        limit="memory" if terms.memory_time_s >= terms.compute_time_s else "compute",
        operator_bound_s=None,
        estimate_s=None,
        output_tokens_per_s=point.batch * deployed.deployment.data_parallel_size / terms.bound_s,
        operators=(),
        matmul_thresholds=thresholds(deployed.model, ridge),
    )
    return StepReport(
        inputs={
            "model": deployed.model.name,
            "gpu": deployed.gpu.name,
            **deployed.deployment.model_dump(mode="json"),
            "kv_cache_dtype": deployed.cache_dtype,
            "batch": point.batch,
            "context": point.mean_context,
        },
        result=result,
        figures=working(terms, point.batch, deployed.deployment.data_parallel_size),
        assumptions=question.assumptions,
        sources=(*deployed.model.sources, *deployed.gpu.sources.values()),
        warnings=point.warnings,
    )


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
