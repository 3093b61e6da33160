"""The estimate of a step: every operator at its measured constants, and what the engine adds around them."""

from collections.abc import Iterable
from dataclasses import dataclass

from kvcalc.counting.arrays import Quantity
from kvcalc.counting.operator import Operator
from kvcalc.specs.base import Assumption
from kvcalc.timing.price import Machine, operator_time


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """What all calls of one operator take: launches and pipelines filling, and work at the achieved rates."""

    operator: Operator
    latency_s: Quantity
    work_s: Quantity

    @property
    def time_s(self) -> Quantity:
        return self.latency_s + self.work_s


@dataclass(frozen=True, slots=True)
class Estimate:
    """Seconds of one step; about 80 % of measurements of unseen deployments fall between low and high."""

    value: Quantity
    low: Quantity
    high: Quantity
    operators: tuple[OperatorTime, ...]
    engine_s: Quantity  # scheduler, sampling and launches, once a step and for each sequence
    assumptions: tuple[Assumption, ...] = ()


def operator_times(operators: Iterable[Operator], machine: Machine) -> tuple[OperatorTime, ...]:
    """The time of every operator of a step, in their order."""
    found = []
    for operator in operators:
        latency, work = operator_time(operator, machine)
        found.append(OperatorTime(operator, operator.count * latency, operator.count * work))
    return tuple(found)


def engine_time(operators: Iterable[Operator], machine: Machine, sequences: Quantity) -> Quantity:
    """What the engine adds to a step's kernels."""
    profile = machine.profile
    layers = sum(operator.count for operator in operators if operator.kind == "elementwise")
    routed = any(operator.kind == "experts" for operator in operators)
    fixed = profile.step_s + profile.layer_s * layers + (profile.moe_step_s if routed else 0)
    return fixed + profile.sequence_s * sequences


def estimate_step(operators: tuple[Operator, ...], machine: Machine, *, sequences: Quantity) -> Estimate:
    """How long a step takes on a machine.

    Args:
        operators: of `counting.operators`.
        machine: the GPU, its kernels (`catalog.kernels.load_kernels`) and the engine's profile.
        sequences: how many the engine schedules and samples for in this step.

    The estimate is never clamped to a bound: where it falls below one, the constants or the data sheet are wrong.
    """
    times = operator_times(operators, machine)
    engine = engine_time(operators, machine, sequences)
    value: Quantity = sum(time.time_s for time in times) + engine
    return Estimate(value, value * 0.85, value * 1.18, times, engine, assumptions(machine))


def assumptions(machine: Machine) -> tuple[Assumption, ...]:
    """What the estimate took for granted."""
    found = []
    if machine.kernels.like is not None:
        why = f"no kernels of {machine.gpu.name} were measured: shares and latencies of {machine.kernels.like}"
        found.append(Assumption(name="kernels", value=machine.kernels.like, why=why))
    return tuple(found)
