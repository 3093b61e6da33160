"""The working behind a point: every figure from the formula that it stands for, with the values put in."""

from math import isclose

from kvcalc.answers.explain import explain
from kvcalc.answers.speed import Point
from kvcalc.formulas import matmul, step
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Figure


def peak_of(point: Point) -> float:
    """The peak that turns the step's FLOPs into its compute time; a mean where element types are mixed."""
    mean: float = point.flops / point.compute_time_s
    return point.deployed.peak_flops if isclose(mean, point.deployed.peak_flops) else mean


def working(point: Point) -> tuple[Figure, ...]:
    """From the terms of a step to its times, throughput and cost."""
    deployment, bandwidth = point.deployed.deployment, point.deployed.gpu.memory_bandwidth_bytes_per_s
    peak = peak_of(point)
    sequences = point.batch / deployment.pipeline_parallel_size
    moved = explain(
        step.decode_step_bytes,
        name="bytes of the step",
        weight_bytes=point.weight_bytes,
        batch=sequences,
        cache_bytes_per_sequence=point.cache_bytes / sequences,
    )
    flops = explain(
        step.decode_step_flops,
        name="FLOPs of the step",
        parameters=(point.flops - point.attention_flops) / (2 * sequences),
        batch=sequences,
        attention_flops_per_sequence=point.attention_flops / sequences,
    )
    figures = [
        moved,
        flops,
        explain(step.intensity, name="intensity", flops=point.flops, bytes_moved=point.bytes),
        explain(matmul.ridge_point, name="ridge point", peak_flops=peak, bandwidth_bytes_per_s=bandwidth),
        explain(step.memory_time, name="memory time", bytes_moved=point.bytes, bandwidth_bytes_per_s=bandwidth),
        explain(step.compute_time, name="compute time", flops=point.flops, peak_flops=peak),
        explain(
            step.roofline_time, name="bound", memory_time_s=point.memory_time_s, compute_time_s=point.compute_time_s
        ),
        *_throughput(point, "the bound", point.bound_s),
    ]
    if point.estimate_s is not None:
        figures += _throughput(point, "the estimate", point.estimate_s.value)
    return tuple(figures)


def _throughput(point: Point, at: str, step_time_s: float) -> list[Figure]:
    """Tokens per second at a step time, and what a million of them cost."""
    speed = explain(step.throughput, name=f"throughput at {at}", batch=point.sequences, step_time_s=step_time_s)
    price = point.deployed.price
    if price is None:
        return [speed]
    cost = explain(
        usd_per_million_tokens,
        name=f"USD per million output tokens at {at}",
        usd_per_gpu_hour=price.median_usd_per_hour,
        gpus=point.deployed.bill.gpus,
        tokens_per_s=speed.value or 0.0,
    )
    return [speed, cost]
