"""The one timer: a pass of any kind through a replica, its bound, its bound by operators, and its estimate.

A decode step, a verification of drafted tokens, a prompt, a step that carries a chunk: whatever a `Step` describes.
Quantities may be arrays: a whole curve or a whole chunked prefill is one pass. Each figure is worked out when asked.

Unit: s
Source: `roofline.py` for bounds, `estimate.py` for estimates, `ranges.py` for their ranges
"""

from functools import cached_property
from typing import Literal

from kvcalc.counting.arrays import Quantity, greatest, is_array, least
from kvcalc.counting.params import total_parameters
from kvcalc.counting.prefetch import with_copies
from kvcalc.counting.work import Operator, Step
from kvcalc.formulas.prefill import mixed_step_bytes, prefill_flops
from kvcalc.formulas.step import compute_time, memory_time
from kvcalc.specs.base import Assumption
from kvcalc.timing.estimate import (
    Estimate,
    KernelSums,
    OperatorTime,
    assumptions,
    eager_launches,
    engine_time,
    kernel_sums,
    operator_times,
    prompt_launches,
    prompt_time,
)
from kvcalc.timing.lesson import lesson_terms
from kvcalc.timing.peaks import host_link
from kvcalc.timing.ranges import Timed, range_around
from kvcalc.timing.replica import Replica
from kvcalc.timing.roofline import Bound, bound, operator_bound_total

ATTENTION = ("attention", "latent_attention", "indexer", "state", "prefill_attention")


class Pass:
    """One pass on one GPU of a replica: bytes, FLOPs and seconds.

    Args:
        replica: the model on its machine.
        step: who is in the pass.
        compute_efficiency: share of the peak at which the bound computes; 1 gives the bound itself.
    """

    def __init__(self, replica: Replica, step: Step, compute_efficiency: float = 1.0) -> None:
        self.replica, self.step, self.compute_efficiency = replica, step, compute_efficiency

    @cached_property
    def operators(self) -> tuple[Operator, ...]:
        """In the order of the model; equal layers are one operator with a count."""
        return self.replica.operators(self.step)

    @cached_property
    def roofline(self) -> Bound:
        """Of the whole: max(Σ bytes / BW, Σ FLOPs / P). The lessons' with `--engine ideal`."""
        found = _lesson_bound(self) if self.replica.ideal else bound(self.operators, self.replica.machine.gpu)
        return found._replace(compute_time_s=found.compute_time_s / self.compute_efficiency)

    @property
    def weight_bytes(self) -> Quantity:
        return self.roofline.weight_bytes

    @property
    def cache_bytes(self) -> Quantity:
        return self.roofline.cache_bytes

    @property
    def bytes(self) -> Quantity:
        return self.roofline.bytes

    @property
    def flops(self) -> Quantity:
        return self.roofline.flops

    @property
    def memory_time_s(self) -> Quantity:
        return self.roofline.memory_time_s

    @property
    def compute_time_s(self) -> Quantity:
        return self.roofline.compute_time_s

    @property
    def bound_s(self) -> Quantity:
        return self.roofline.time_s

    @property
    def limit(self) -> Literal["memory", "compute"]:
        """Of a single point."""
        return self.roofline.limit

    @cached_property
    def attention_flops(self) -> Quantity:
        """Of `flops`, what attends over cached or prompt tokens."""
        if not self.replica.ideal:
            return sum(one.count * one.flops for one in self.operators if one.kind in ATTENTION)
        decode = lesson_terms(self.replica, self.step)
        return self.step.rows_each * decode.attention_flops + _prompt_attention(self.operators)

    @cached_property
    def operator_bound_s(self) -> Quantity:
        """Operator by operator, each at the roof that binds it."""
        machine = self.replica.machine
        return self.beside_copies(operator_bound_total(self.operators, machine.gpu, machine.gpus_per_node))

    @cached_property
    def operator_times(self) -> tuple[OperatorTime, ...]:
        """What each operator is estimated to take; none with `--engine ideal`."""
        return () if self.replica.ideal else operator_times(self.operators, self.replica.machine)

    @cached_property
    def sums(self) -> KernelSums:
        """The kernels, summed by what an engine's factors apply to."""
        return kernel_sums(self.operators, self.replica.machine)

    @cached_property
    def estimate(self) -> Estimate | None:
        """Seconds with their range; None with `--engine ideal`, where nothing but the bound is meant."""
        if self.replica.ideal:
            return None
        value, machine = self.time_s, self.replica.machine
        timed: Timed = "prompt" if _none(self.step.decode) else "decode"
        launched = not is_array(self.launched) and self.launched > 0
        known = "eager" if launched else self.replica.knowledge
        around = range_around(machine, self.replica.routed, timed, known)
        # Nothing beats the data sheet: the range ends there. The value itself is never moved.
        low = least(value, greatest(around.low * value, self.bound_s))
        return Estimate(value, low, around.high * value)

    @cached_property
    def time_s(self) -> Quantity:
        """The estimate's value where there is one, else the bound."""
        return self.bound_s if self.replica.ideal else self.kernels_s + self.engine_s

    @property
    def engine_s(self) -> Quantity:
        """Of the estimate, what the engine adds to its kernels: scheduler, sampling and launches."""
        if self.replica.ideal:
            return 0.0
        profile = self.replica.machine.profile
        added: Quantity = 0.0
        if not _none(self.step.decode):
            added = engine_time(profile, self.step.decode, self.sums.layers, self.sums.routed)
        if not _none(self.step.prompts):
            added = added + prompt_launches(profile, self.sums.layers, self.sums.routed)
        return added

    @property
    def kernels_s(self) -> Quantity:
        """Of the estimate, the kernels; the bound with `--engine ideal`.

        Decode at its kernels; a prompt, alone or carried, at what it adds to them times the engine's factor.
        """
        if self.replica.ideal:
            return self.bound_s
        profile, sums = self.replica.machine.profile, self.sums
        if _none(self.step.prompts):
            whole = sums.total_s(profile)
        elif _none(self.step.decode):
            whole = prompt_time(sums, profile)
        else:
            plain = self.without_prompts.sums
            whole = plain.total_s(profile) + prompt_time(sums - plain, profile)
        # Where the host launches kernel by kernel, a short kernel waits for its launch.
        whole = greatest(whole, self.launched * eager_launches(profile, sums.layers, sums.routed))
        return self.beside_copies(whole)

    @property
    def launched(self) -> Quantity:
        """1 where no graph covers the pass: none covers any, or its sequences are more than were captured; else 0."""
        captured = self.replica.captured
        if not captured:
            return 0.0 if captured is None else 1.0
        return (self.step.decode > captured) * 1.0

    def beside_copies(self, computing_s: Quantity) -> Quantity:
        """Seconds of so much computing where layers wait for weights that are fetched from the host."""
        what = self.replica.prefetch
        if what is None:
            return computing_s
        return with_copies(computing_s, host_link(self.replica.machine.gpu).bandwidth_bytes_per_s, what)

    @cached_property
    def without_prompts(self) -> "Pass":
        """The same sequences decoding alone."""
        alone = self.step._replace(prompts=0, tokens=0, start=0)
        if self.compute_efficiency == 1:
            return pass_of(self.replica, alone)
        return Pass(self.replica, alone, self.compute_efficiency)

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        return () if self.replica.ideal else assumptions(self.replica.machine)


def pass_of(replica: Replica, step: Step) -> Pass:
    """The pass of a step, worked out once for each replica; a sweep's is not kept."""
    if any(map(is_array, step)):
        return Pass(replica, step)
    found = replica.passes.get(step)
    if found is None:
        found = replica.passes[step] = Pass(replica, step)
    return found


def _lesson_bound(one: Pass) -> Bound:
    """The lessons' pass: every parameter is read once and works once for each row.

    A chunk's own reads are left out, but a pass without decoding sequences reads what its tokens attend to.
    """
    replica, step = one.replica, one.step
    decode = lesson_terms(replica, step)
    parameters = total_parameters(replica.model) / replica.layout.tensor_parallel_size
    prompts = prefill_flops(parameters, step.prefill_rows, _prompt_attention(one.operators))
    flops = step.rows_each * decode.flops + prompts
    cache = decode.cache_bytes
    if _none(step.decode) and not step.causal:
        cache = sum(operator.count * operator.cache_bytes for operator in one.operators)
    moved = mixed_step_bytes(decode.weight_bytes + cache)
    return Bound(
        weight_bytes=decode.weight_bytes,
        cache_bytes=cache,
        flops=flops,
        memory_time_s=memory_time(moved, replica.machine.bandwidth),
        compute_time_s=compute_time(flops, replica.peak_flops),
    )


def _prompt_attention(operators: tuple[Operator, ...]) -> Quantity:
    return sum(one.count * one.flops for one in operators if one.kind == "prefill_attention")


def _none(value: Quantity) -> bool:
    return not is_array(value) and value == 0


def engine_share(replica: Replica, sequences: Quantity) -> Quantity:
    """Seconds that the engine adds to a step of so many sequences; nothing with `--engine ideal`."""
    if replica.ideal:
        return 0.0
    return engine_time(replica.machine.profile, sequences, replica.model.layers, replica.routed)
