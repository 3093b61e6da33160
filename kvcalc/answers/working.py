"""The working behind a step: every figure from the formula that it stands for, with the values put in."""

from collections.abc import Iterator
from math import isclose

from kvcalc.answers.explain import SPECULATED, ends, explain, figure_of
from kvcalc.answers.performance import Performance
from kvcalc.formulas import matmul, step
from kvcalc.formulas.cost import usd_per_million_tokens
from kvcalc.results.base import Figure
from kvcalc.timing.passes import Pass

TOKEN = "a token at the estimate"  # where drafts make several of a step


def peak_of(one: Pass) -> float:
    """The peak that turns the step's FLOPs into its compute time; a mean where element types are mixed."""
    mean = float(one.flops / one.compute_time_s)
    plain = one.replica.peak_flops
    return plain if isclose(mean, plain) else mean


def working(speed: Performance) -> tuple[Figure, ...]:
    """From the terms of a step to its times, throughput and cost; nothing where nothing runs."""
    one, batch = speed.step, speed.point.batch
    if one is None or batch is None:
        return ()
    bandwidth = speed.deployed.gpu.memory_bandwidth_bytes_per_s
    sequences = batch / speed.deployed.deployment.pipeline_parallel_size
    moved = explain(
        step.decode_step_bytes,
        name="bytes of the step",
        weight_bytes=one.weight_bytes,
        batch=sequences,
        cache_bytes_per_sequence=one.cache_bytes / sequences,
    )
    figures = [moved, *roofline_figures(one, sequences, bandwidth)]
    figures += _throughput(speed, "the bound", float(one.bound_s))
    if speed.deployed.deployment.num_speculative_tokens:
        figures += _drafted(speed, one)
    if speed.estimate is not None:
        found = speed.estimate
        figures += _throughput(speed, "the estimate", found.step_time_s.value)
        figures += ends("estimate" if speed.step_gain.value == 1 else TOKEN, found.step_time_s, "s")
        figures += ends("throughput at the estimate", found.output_tokens_per_s, "tokens/s")
        if (cost := found.usd_per_million_output_tokens) is not None:
            figures += ends("USD per million output tokens at the estimate", cost, "USD per million tokens")
    return tuple(figures)


def _drafted(speed: Performance, one: Pass) -> Iterator[Figure]:
    """The step for each token that drafts make of it; nothing where times are without drafts."""
    from kvcalc.answers.speculate.serving import token_bound

    check, gain = token_bound(speed.deployed, one), float(speed.step_gain.value)
    if check.tokens != 1:
        inputs = {"check_s": check.check_s, "tokens": check.tokens}
        yield figure_of("a token at the bound, drafts free", "check_s / tokens", inputs, "s", SPECULATED)
        yield from _throughput(speed, "the bound, drafts free", check.token_s)
    if gain != 1 and one.estimate is not None:
        inputs = {"step_s": float(one.estimate.value), "speedup": gain}
        yield figure_of(TOKEN, "step_s / speedup", inputs, "s", SPECULATED)


def roofline_figures(one: Pass, rows: float, bandwidth: float) -> tuple[Figure, ...]:
    """From the FLOPs of a pass of so many rows to its bound; `bandwidth` in bytes/s."""
    peak = peak_of(one)
    return (
        explain(
            step.decode_step_flops,
            name="FLOPs of the step",
            parameters=(one.flops - one.attention_flops) / (2 * rows),
            batch=rows,
            attention_flops_per_sequence=one.attention_flops / rows,
        ),
        explain(step.intensity, name="intensity", flops=one.flops, bytes_moved=one.bytes),
        explain(matmul.ridge_point, name="ridge point", peak_flops=peak, bandwidth_bytes_per_s=bandwidth),
        explain(step.memory_time, name="memory time", bytes_moved=one.bytes, bandwidth_bytes_per_s=bandwidth),
        explain(step.compute_time, name="compute time", flops=one.flops, peak_flops=peak),
        explain(step.roofline_time, name="bound", memory_time_s=one.memory_time_s, compute_time_s=one.compute_time_s),
    )


def _throughput(speed: Performance, at: str, step_time_s: float) -> list[Figure]:
    """Tokens per second at a step time, and what a million of them cost."""
    rate = explain(step.throughput, name=f"throughput at {at}", batch=speed.sequences, step_time_s=step_time_s)
    price = speed.deployed.price
    if price is None:
        return [rate]
    cost = explain(
        usd_per_million_tokens,
        name=f"USD per million output tokens at {at}",
        usd_per_gpu_hour=price.median_usd_per_hour,
        gpus=speed.deployed.bill.gpus,
        tokens_per_s=rate.value or 0.0,
    )
    return [rate, cost]
