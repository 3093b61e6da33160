"""One point: the decode step of a batch at a context, its bounds, its estimate, and what a token then costs."""

from math import isclose

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.explain import explain
from kvcalc.answers.lesson import lesson_step
from kvcalc.counting.operator import Operator
from kvcalc.counting.operators import decode_step
from kvcalc.formulas import matmul, step
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.reports.base import Figure, Range
from kvcalc.reports.size import Bound, Estimate
from kvcalc.specs.base import Assumption, Frozen
from kvcalc.timing.estimate import assumptions, estimate_step
from kvcalc.timing.roofline import bound as roofline
from kvcalc.timing.roofline import operator_bound_total


class Point(Frozen):
    """Bytes, FLOPs and times are of one GPU; throughput and cost of the whole deployment."""

    batch: int  # of one replica
    context: int
    weight_bytes: float
    cache_bytes: float
    flops: float
    attention_flops: float
    memory_time_s: float
    compute_time_s: float
    bound: Bound
    operator_bound_s: float
    estimate: Estimate | None
    figures: tuple[Figure, ...] = ()
    assumptions: tuple[Assumption, ...] = ()

    @property
    def bytes(self) -> float:
        return self.weight_bytes + self.cache_bytes

    def figure(self, name: str) -> float:
        """A figure of the working, by its name."""
        return next(float(one.value or 0) for one in self.figures if one.name == name)

    @property
    def estimate_s(self) -> Range | None:
        return None if self.estimate is None else self.estimate.step_time_s

    @property
    def best_step_s(self) -> float:
        """The estimate's value where there is one, else the bound."""
        return self.bound.step_time_s if self.estimate is None else self.estimate.step_time_s.value


def operators_of(deployed: Deployed, context: int, batch: int) -> tuple[Operator, ...]:
    """The operators of the step on one GPU."""
    return decode_step(
        deployed.model,
        deployed.deployment.layout,
        batch=batch,
        context=context,
        cache_dtype=deployed.cache_dtype,
        state_dtype=deployed.state_dtype,
    )


def point_of(deployed: Deployed, context: int, batch: int) -> Point:
    """The decode step of `batch` sequences of `context` tokens on each replica.

    With `--engine ideal` the bound is the lessons': every parameter is read. With a real engine it counts what the
    operators read.
    """
    operators = operators_of(deployed, context, batch)
    terms = _lesson(deployed, context, batch) if deployed.deployment.engine == "ideal" else _read(deployed, operators)
    figures = _working(deployed, terms, batch)
    values = {figure.name: figure.value or 0.0 for figure in figures}
    cost = values.get(COST)
    memory, compute = values["memory time"], values["compute time"]
    return Point(
        batch=batch,
        context=context,
        **terms,
        memory_time_s=memory,
        compute_time_s=compute,
        bound=Bound(
            step_time_s=values["bound"],
            output_tokens_per_s=values["throughput at the bound"],
            limit="memory" if memory >= compute else "compute",
            usd_per_million_output_tokens=cost,
        ),
        operator_bound_s=float(operator_bound_total(operators, deployed.gpu, deployed.gpus_per_node)),
        estimate=_estimate(deployed, operators, batch),
        figures=figures,
        assumptions=assumptions(deployed.machine),
    )


def _estimate(deployed: Deployed, operators: tuple[Operator, ...], batch: int) -> Estimate | None:
    """What this GPU and engine are expected to do; none with `--engine ideal`, where nothing but the bound is meant."""
    if deployed.deployment.engine == "ideal":
        return None
    found = estimate_step(operators, deployed.machine, sequences=batch)
    time = Range(value=found.value, low=found.low, high=found.high)
    return estimate_of(deployed, time, batch * deployed.deployment.data_parallel_size)


def estimate_of(deployed: Deployed, time: Range, sequences: float) -> Estimate:
    """Throughput and cost of the whole deployment from the time of a step; the low time gives the high throughput."""
    speed = Range(value=sequences / time.value, low=sequences / time.high, high=sequences / time.low)
    cost = None
    if deployed.price is not None:
        usd, gpus = deployed.price.median_usd_per_hour, deployed.deployment.gpus
        cost = Range(
            value=usd_per_million_tokens(usd, gpus, speed.value),
            low=usd_per_million_tokens(usd, gpus, speed.high),
            high=usd_per_million_tokens(usd, gpus, speed.low),
        )
    return Estimate(step_time_s=time, output_tokens_per_s=speed, usd_per_million_output_tokens=cost)


COST = "USD per million output tokens at the bound"


def _read(deployed: Deployed, operators: tuple[Operator, ...]) -> dict[str, float]:
    found = roofline(operators, deployed.gpu)
    return {
        "weight_bytes": float(found.weight_bytes),
        "cache_bytes": float(found.cache_bytes),
        "flops": float(found.flops),
        "attention_flops": float(sum(one.count * one.flops for one in operators if one.cache_bytes)),
        "peak_flops": float(found.flops / found.compute_time_s),
    }


def _lesson(deployed: Deployed, context: int, batch: int) -> dict[str, float]:
    one = lesson_step(deployed.model, deployed.deployment.layout, batch, context, deployed.cache_dtype)
    return {
        "weight_bytes": one.weight_bytes,
        "cache_bytes": one.batch * one.cache_bytes_per_sequence,
        "flops": one.flops,
        "attention_flops": one.batch * one.attention_flops_per_sequence,
        "peak_flops": deployed.peak_flops,
    }


def _working(deployed: Deployed, terms: dict[str, float], batch: int) -> tuple[Figure, ...]:
    """From the terms of a step to its times, throughput and cost, each with its formula. Takes `peak_flops` out."""
    peak, bandwidth = terms.pop("peak_flops"), deployed.gpu.memory_bandwidth_bytes_per_s
    if isclose(peak, deployed.peak_flops):
        peak = deployed.peak_flops  # one element type throughout: the data sheet's own number
    deployment = deployed.deployment
    sequences = batch / deployment.pipeline_parallel_size
    moved = explain(
        step.decode_step_bytes,
        name="bytes of the step",
        weight_bytes=terms["weight_bytes"],
        batch=sequences,
        cache_bytes_per_sequence=terms["cache_bytes"] / sequences,
    )
    flops = explain(
        step.decode_step_flops,
        name="FLOPs of the step",
        parameters=(terms["flops"] - terms["attention_flops"]) / (2 * sequences),
        batch=sequences,
        attention_flops_per_sequence=terms["attention_flops"] / sequences,
    )
    bytes_moved = terms["weight_bytes"] + terms["cache_bytes"]
    memory = explain(step.memory_time, name="memory time", bytes_moved=bytes_moved, bandwidth_bytes_per_s=bandwidth)
    compute = explain(
        step.compute_time, name="compute time", flops=terms["flops"], peak_flops=peak, compute_efficiency=1
    )
    bound = explain(
        step.roofline_time, name="bound", memory_time_s=memory.value or 0.0, compute_time_s=compute.value or 0.0
    )
    speed = explain(
        step.throughput,
        name="throughput at the bound",
        batch=batch * deployment.data_parallel_size,
        step_time_s=bound.value or 0.0,
    )
    figures = [
        moved,
        flops,
        explain(step.intensity, name="intensity", flops=terms["flops"], bytes_moved=bytes_moved),
        explain(matmul.ridge_point, name="ridge point", peak_flops=peak, bandwidth_bytes_per_s=bandwidth),
        memory,
        compute,
        bound,
        speed,
    ]
    if deployed.price is not None:
        figures.append(
            explain(
                usd_per_million_tokens,
                name=COST,
                usd_per_gpu_hour=deployed.price.median_usd_per_hour,
                gpus=deployment.gpus,
                tokens_per_s=speed.value or 0.0,
            )
        )
    return tuple(figures)
