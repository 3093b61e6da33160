"""A pass of any kind put on the machine: a decode step, a verification, a prompt, a step that carries a chunk.

`speed.point_of` takes one decode step apart; this times whatever a `Step` describes, so that `prefill` and `speculate`
compare passes with each other. Quantities may be arrays: a whole chunked prefill is one call.
"""

from dataclasses import dataclass

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.lesson import lesson_terms
from kvcalc.answers.speed import ATTENTION
from kvcalc.counting.arrays import Quantity, greatest
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.params import total_parameters
from kvcalc.counting.work import Operator, Step
from kvcalc.formulas.prefill import mixed_step_bytes, prefill_flops
from kvcalc.formulas.step import compute_time, memory_time
from kvcalc.results.base import Range
from kvcalc.specs.model import MoeMlp
from kvcalc.timing.estimate import (
    KernelSums,
    engine_time,
    first_token_time,
    kernel_sums,
    prefill_time,
    ranged,
    step_time,
)
from kvcalc.timing.ranges import spread
from kvcalc.timing.roofline import bound as roofline
from kvcalc.timing.roofline import operator_bound_total


@dataclass(frozen=True, slots=True)
class Pass:
    """Bytes, FLOPs and seconds of one pass on one GPU; the estimate is None with `--engine ideal`."""

    weight_bytes: Quantity
    cache_bytes: Quantity
    flops: Quantity
    attention_flops: Quantity
    memory_time_s: Quantity
    compute_time_s: Quantity
    operator_bound_s: Quantity
    estimate_s: Quantity | None = None
    low_s: Quantity | None = None
    high_s: Quantity | None = None

    @property
    def bound_s(self) -> Quantity:
        return greatest(self.memory_time_s, self.compute_time_s)

    @property
    def time_s(self) -> Quantity:
        """The estimate where there is one, else the bound."""
        return self.bound_s if self.estimate_s is None else self.estimate_s

    @property
    def range(self) -> Range | None:
        """The estimate of one pass with its ends."""
        if self.estimate_s is None or self.low_s is None or self.high_s is None:
            return None
        return Range(value=self.estimate_s, low=self.low_s, high=self.high_s)


def timed(deployed: Deployed, step: Step, compute_efficiency: float = 1.0) -> Pass:
    """The pass that `step` describes.

    Args:
        deployed: the model on its GPUs.
        step: sequences that decode and tokens of prompts; `counting.operator.Step`.
        compute_efficiency: share of the peak at which the bound computes; 1 gives the bound itself.
    """
    operators = operators_of_pass(deployed, step)
    if deployed.deployment.engine == "ideal":
        return _lesson(deployed, step, operators, compute_efficiency)
    found = roofline(operators, deployed.gpu)
    value, low, high = _estimate(deployed, step, operators)
    return Pass(
        weight_bytes=found.weight_bytes,
        cache_bytes=found.cache_bytes,
        flops=found.flops,
        attention_flops=_attention(operators),
        memory_time_s=found.memory_time_s,
        compute_time_s=found.compute_time_s / compute_efficiency,
        operator_bound_s=operator_bound_total(operators, deployed.gpu, deployed.gpus_per_node),
        estimate_s=value,
        low_s=low,
        high_s=high,
    )


def busy_prompt(deployed: Deployed, step: Step, compute_efficiency: float = 1.0) -> Quantity:
    """Seconds that a prompt keeps a busy GPU: its estimate as in serving, whose launches hide behind other work."""
    if deployed.deployment.engine == "ideal":
        return timed(deployed, step, compute_efficiency).bound_s
    return prefill_time(kernel_sums(operators_of_pass(deployed, step), deployed.machine), deployed.machine.profile)


def operators_of_pass(deployed: Deployed, step: Step) -> tuple[Operator, ...]:
    """The operators of a pass on one GPU."""
    return step_operators(deployed.model, deployed.deployment.layout, step, deployed.cache_dtype, deployed.state_dtype)


def _attention(operators: tuple[Operator, ...]) -> Quantity:
    return sum(one.count * one.flops for one in operators if one.kind in (*ATTENTION, "prefill_attention"))


def _lesson(deployed: Deployed, step: Step, operators: tuple[Operator, ...], efficiency: float) -> Pass:
    """The lessons' pass: every parameter is read once and works once for each row; a chunk's own reads are left out."""
    layout = deployed.deployment.layout
    decode = lesson_terms(deployed.model, deployed.profile, layout, step.decode, step.context)
    prompts = sum(op.count * op.flops for op in operators if op.kind == "prefill_attention")
    parameters = total_parameters(deployed.model) / layout.tensor_parallel_size
    flops = step.rows_each * decode["flops"] + prefill_flops(parameters, step.prefill_rows, prompts)
    moved = mixed_step_bytes(decode["weight_bytes"] + decode["cache_bytes"])
    return Pass(
        weight_bytes=decode["weight_bytes"],
        cache_bytes=decode["cache_bytes"],
        flops=flops,
        attention_flops=step.rows_each * decode["attention_flops"] + prompts,
        memory_time_s=memory_time(moved, deployed.gpu.memory_bandwidth_bytes_per_s),
        compute_time_s=compute_time(flops, deployed.peak_flops, efficiency),
        operator_bound_s=operator_bound_total(operators, deployed.gpu, deployed.gpus_per_node),
    )


def _estimate(deployed: Deployed, step: Step, operators: tuple[Operator, ...]) -> tuple[Quantity, Quantity, Quantity]:
    """A step as decode measures it, a prompt alone as its first token, a chunk as what it adds to the step."""
    machine = deployed.machine
    sums = kernel_sums(operators, machine)
    kind = "tpot-moe" if sums.routed else "tpot-dense"
    if _none(step.prompts):
        value = step_time(sums, machine.profile, step.decode)
    elif _none(step.decode):
        value, kind = first_token_time(sums, machine.profile), "ttft-alone"
    else:
        plain = operators_of_pass(deployed, step._replace(prompts=0, tokens=0, start=0))
        value = _carried(deployed, step, kernel_sums(plain, machine), sums)
    found = ranged(value, spread(kind), machine)
    return found.value, found.low, found.high


def _carried(deployed: Deployed, step: Step, plain: KernelSums, mixed: KernelSums) -> Quantity:
    """Chunks cost the difference of two steps: launches, decode attention and the engine are in both."""
    profile = deployed.machine.profile
    added = mixed.total_s(profile) - plain.total_s(profile)
    engine = engine_time(profile, step.decode, plain.layers, plain.routed)
    return plain.total_s(profile) + engine + profile.prefill_factor * added


def _none(value: Quantity) -> bool:
    return not hasattr(value, "__array__") and value == 0


def kernel_time(deployed: Deployed, step: Step) -> Quantity:
    """Seconds of a pass without what an engine adds once a step or for each sequence; the bound with `ideal`."""
    if deployed.deployment.engine == "ideal":
        return timed(deployed, step).bound_s
    sums, profile = kernel_sums(operators_of_pass(deployed, step), deployed.machine), deployed.machine.profile
    return sums.total_s(profile) + profile.layer_s * sums.layers


def engine_share(deployed: Deployed, sequences: Quantity) -> Quantity:
    """Seconds that the engine adds to a step of so many sequences: nothing with `ideal`."""
    if deployed.deployment.engine == "ideal":
        return 0.0
    routed = any(isinstance(group.mlp, MoeMlp) for group in deployed.model.groups)
    return engine_time(deployed.machine.profile, sequences, 0, routed)
