"""Terms of an estimate: operators at their measured constants, and what the engine adds around them.

Unit: s
Source: the operators' own formulas (`timing/operators/`); that an engine adds so much a step, layer and sequence was
fitted with its profile, and docs/reference/accuracy.md says how far it errs
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, least
from kvcalc.counting.work import Operator
from kvcalc.specs.base import Assumption
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.times import operator_time
from kvcalc.timing.roofline import LINKED


class OperatorTime(NamedTuple):
    """What all calls of one operator take: launches and pipelines filling, and work at the achieved rates."""

    operator: Operator
    latency_s: Quantity
    work_s: Quantity

    @property
    def time_s(self) -> Quantity:
        return self.latency_s + self.work_s


TIMES = ("latency_s", "work_s", "head_s", "link_latency_s", "link_work_s")


@dataclass(frozen=True, slots=True)
class KernelSums:
    """Kernel times of a step by what an engine's factors apply to; everything else is linear in these."""

    latency_s: Quantity = 0.0
    work_s: Quantity = 0.0
    head_s: Quantity = 0.0
    link_latency_s: Quantity = 0.0
    link_work_s: Quantity = 0.0
    layers: Quantity = 0
    routed: Quantity = 0  # 1 where there are experts

    def __add__(self, other: "KernelSums") -> "KernelSums":
        return self._joined(other, 1)

    def __sub__(self, other: "KernelSums") -> "KernelSums":
        return self._joined(other, -1)

    def __truediv__(self, parts: float) -> "KernelSums":
        return replace(self, **{name: getattr(self, name) / parts for name in TIMES})

    def _joined(self, other: "KernelSums", sign: int) -> "KernelSums":
        """Times added or taken off; layers and experts of either, for both are of one model."""
        return KernelSums(
            self.latency_s + sign * other.latency_s,
            self.work_s + sign * other.work_s,
            self.head_s + sign * other.head_s,
            self.link_latency_s + sign * other.link_latency_s,
            self.link_work_s + sign * other.link_work_s,
            other.layers,
            other.routed,
        )

    def total_s(self, profile: Profile) -> Quantity:
        """All kernels of the step."""
        links = profile.launch_factor * self.link_latency_s + self.link_work_s
        own = profile.launch_factor * self.latency_s + self.work_s + self.head_s
        return profile.kernel_factor * (own + profile.link_factor * links)


class Estimate(NamedTuple):
    """Seconds; about 80 % of measurements of unseen deployments fall between low and high."""

    value: Quantity
    low: Quantity
    high: Quantity


def operator_times(operators: Iterable[Operator], machine: Machine) -> tuple[OperatorTime, ...]:
    """The time of every operator of a step, in their order."""
    found = []
    for operator in operators:
        latency, work = operator_time(operator, machine)
        profile = machine.profile
        times = operator.count * profile.kernel_factor * (profile.link_factor if operator.kind in LINKED else 1)
        found.append(OperatorTime(operator, times * profile.launch_factor * latency, times * work))
    return tuple(found)


def kernel_sums(operators: Iterable[Operator], machine: Machine) -> KernelSums:
    """The kernels of a step, summed before the engine's factors."""
    latencies: Quantity = 0.0
    works: Quantity = 0.0
    head: Quantity = 0.0
    link_latencies: Quantity = 0.0
    link_works: Quantity = 0.0
    layers, routed = 0, 0
    for operator in operators:
        latency, work = operator_time(operator, machine)
        latency, work = operator.count * latency, operator.count * work
        if operator.kind in LINKED:
            link_latencies, link_works = link_latencies + latency, link_works + work
            continue
        latencies = latencies + latency
        if operator.name == "head":
            head = head + work
        else:
            works = works + work
        layers += operator.count if operator.kind == "elementwise" else 0
        routed = 1 if operator.kind == "experts" else routed
    return KernelSums(latencies, works, head, link_latencies, link_works, layers, routed)


def engine_time(profile: Profile, sequences: Quantity, layers: Quantity, routed: Quantity) -> Quantity:
    """What an engine adds to the kernels of a step: once, for each layer, for each sequence."""
    fixed = profile.step_s + profile.layer_s * layers + profile.moe_step_s * routed
    return fixed + profile.sequence_s * least(sequences, profile.sequences_most)


def eager_launches(profile: Profile, layers: Quantity, routed: Quantity) -> Quantity:
    """Seconds that the host takes to launch a pass kernel by kernel."""
    return (profile.eager_layer_s + profile.moe_eager_layer_s * routed) * layers


def front_end_time(profile: Profile, clients: Quantity) -> Quantity:
    """Seconds outside the engine before a first token: the more answers are streamed meanwhile, the longer."""
    return profile.front_end_alone_s + (profile.front_end_s - profile.front_end_alone_s) * (1 - 1 / clients)


def step_time(sums: KernelSums, profile: Profile, sequences: Quantity) -> Quantity:
    """Seconds of a step: its kernels and what the engine adds."""
    return sums.total_s(profile) + engine_time(profile, sequences, sums.layers, sums.routed)


def prompt_time(sums: KernelSums, profile: Profile) -> Quantity:
    """Seconds that the kernels of a prompt take, alone or as what a chunk adds to the kernels of a step."""
    return profile.prompt_factor * sums.total_s(profile)


def prompt_launches(profile: Profile, layers: Quantity, routed: Quantity) -> Quantity:
    """Seconds that an engine adds to a pass with a prompt: no graph covers its layers."""
    return (profile.prompt_layer_s + profile.moe_prompt_layer_s * routed) * layers


def busy_prompt_time(sums: KernelSums, profile: Profile) -> Quantity:
    """Seconds that a prompt costs an engine that is never idle: work alone, for launches hide behind other work."""
    work = sums.work_s + profile.link_factor * sums.link_work_s
    return profile.busy_factor * profile.kernel_factor * work


def assumptions(machine: Machine) -> tuple[Assumption, ...]:
    """What the estimates took for granted."""
    if machine.ggml is not None:
        attention = "with" if machine.flash_attention else "without"
        why = f"llama.cpp's own since {machine.ggml.since}, {attention} flash attention; {machine.ggml.evidence}"
        return (Assumption(name="kernels", value=machine.ggml.name, why=why),)
    if machine.kernels.like is None:
        return ()
    why = f"no kernels of {machine.gpu.name} were measured: latencies and shares of {machine.kernels.like}, own peaks"
    return (Assumption(name="kernels", value=machine.kernels.like, why=why),)
