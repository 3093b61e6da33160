"""What the report of any step has: its bytes, FLOPs, intensity and times on one GPU."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint
from kvcalc.answers.performance import range_of
from kvcalc.answers.step.rows import intensity
from kvcalc.answers.subject import subject
from kvcalc.answers.verdict import Verdict
from kvcalc.answers.working import peak_of
from kvcalc.counting.arrays import single
from kvcalc.formulas import matmul
from kvcalc.formulas.step import throughput
from kvcalc.results.step import MatmulThreshold, OperatorRow, StepResult
from kvcalc.specs.model import ModelSpec, Tensor
from kvcalc.timing.passes import Pass


def step_result(
    deployed: Deployed,
    point: OperatingPoint,
    found: Verdict,
    at: Pass,
    operators: tuple[OperatorRow, ...],
    tokens: int = 1,
) -> StepResult:
    """A pass taken apart: `tokens` tokens of each of the point's sequences, of its mean context."""
    batch = point.batch or 1
    ridge = matmul.ridge_point(peak_of(at), deployed.gpu.memory_bandwidth_bytes_per_s)
    return StepResult(
        **subject(deployed, found),
        stages=deployed.deployment.pipeline_parallel_size,
        batch=batch,
        context=point.mean_context,
        bytes=single(at.bytes),
        weight_bytes=single(at.weight_bytes),
        cache_bytes=single(at.cache_bytes),
        flops=single(at.flops),
        intensity_flop_per_byte=single(at.flops / at.bytes),
        intensity=intensity(
            single(at.flops), single(at.attention_flops), single(at.weight_bytes), single(at.cache_bytes)
        ),
        ridge_flop_per_byte=ridge,
        memory_time_s=single(at.memory_time_s),
        compute_time_s=single(at.compute_time_s),
        bound_s=single(at.bound_s),
        limit=at.limit,
        operator_bound_s=single(at.operator_bound_s),
        estimate_s=None if at.estimate is None else range_of(at.estimate),
        output_tokens_per_s=throughput(deployed.deployment.data_parallel_size * batch * tokens, single(at.bound_s)),
        operators=operators,
        matmul_thresholds=_thresholds(deployed.model, ridge),
    )


def _thresholds(model: ModelSpec, ridge: float) -> tuple[MatmulThreshold, ...]:
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
