"""One data-parallel replica of a model, as it is served on its machine: what every time is worked out from."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from kvcalc.counting.cache import CacheProfile, cache_profile
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.params import active_parameters
from kvcalc.counting.placement import HostPart, placed_operators
from kvcalc.counting.prefetch import Prefetch
from kvcalc.counting.work import Operator, Step
from kvcalc.specs.deployment import BATCHED_TOKENS, Layout
from kvcalc.specs.model import ModelSpec, MoeMlp, Recurrent
from kvcalc.timing.machine import Machine
from kvcalc.timing.operators.ggml import busy_share, computed_in, pipelined
from kvcalc.timing.peaks import arithmetic
from kvcalc.timing.ranges import Knowledge


@dataclass(frozen=True)
class Replica:
    """A model, its layout and its element types on a machine; recurrent mixers say the type of their own state.

    `ideal` leaves nothing but the bound. `budget` is the prompt tokens of one step at most.
    """

    model: ModelSpec
    layout: Layout
    machine: Machine
    cache_dtype: str = "bf16"
    budget: int = BATCHED_TOKENS
    ideal: bool = False
    captured: int | None = None  # sequences of the largest step that runs from a graph, 0: none does; None: any
    offload_bytes: int = 0  # of weights, per GPU, that stay in the host's memory
    prefetch: Prefetch | None = None  # layers whose weights are fetched from there ahead of their turn
    host: HostPart | None = None  # of llama.cpp's layers and experts, what stays with the CPU
    recv_interval: int = 1  # decode steps between two looks for new requests
    ahead: int = 1  # steps that are planned before the results of the last are known

    def operators(self, step: Step) -> tuple[Operator, ...]:
        """What one GPU does in a pass."""
        step = step._replace(absorbed=self.machine.ggml is not None)
        if self.host is not None:
            return self._computed(placed_operators(self.model, self.layout, step, self.cache_dtype, self.host))
        found = self._computed(step_operators(self.model, self.layout, step, self.cache_dtype))
        hops = self.machine.gpu.split_over - 1
        if hops:
            found = (*found, Operator("to the next card", "send", hops, rows=step.rows, ranks=2))
        if not self.offload_bytes:
            return found
        return (*found, Operator("offloaded weights", "host", 1, link_bytes=float(self.offload_bytes), ranks=2))

    def _computed(self, found: tuple[Operator, ...]) -> tuple[Operator, ...]:
        """Operators with the element type that their kernels compute in, where that is not the weights'."""
        if self.machine.ggml is None:
            return found
        return tuple(replace(one, compute=computed_in(one, self.machine)) for one in found)

    def overlap(self, chunks: int) -> float:
        """The share of its chunks' times that a prompt takes: llama.cpp's ubatches pass the stages as a pipeline."""
        if self.machine.parts is None:
            return 1.0
        stages = self.layout.pipeline_parallel_size
        busy = busy_share(self.machine.parts.split, active_parameters(self.model) / stages)
        return pipelined(chunks, stages, busy) / chunks

    @cached_property
    def busy(self) -> "Replica":
        """The same on a GPU that never pauses: more requests than slots, prompts without end."""
        return replace(self, machine=self.machine._replace(busy=True))

    @cached_property
    def passes(self) -> dict[Step, Any]:
        """Passes that were worked out, for `timing.passes.pass_of`."""
        return {}

    @cached_property
    def alone(self) -> dict[tuple[float, float], Any]:
        """Times to first token that were worked out, for `timing.prompts.alone_time`: by tokens computed and cached."""
        return {}

    @cached_property
    def routed(self) -> bool:
        """Whether the model has experts that a router chooses."""
        return any(isinstance(group.mlp, MoeMlp) for group in self.model.groups)

    @property
    def layer_launch_s(self) -> float:
        """Seconds of a pass that go into launches no graph hides."""
        return 0.0 if self.ideal else self.machine.profile.layer_s * self.model.layers

    @cached_property
    def knowledge(self) -> Knowledge:
        """How well its steps are known at best: what rests on one report has the range of a judgement.

        Weights that stay in the host's memory, all-reduces from node to node; launches without graphs by their hosts.
        """
        node = self.machine.gpus_per_node or self.machine.gpu.gpus_per_node
        if self.captured == 0:
            return "eager"
        if self.offload_bytes or self.prefetch or self.layout.tensor_parallel_size > node:
            return "judged"
        return "unmeasured" if self.unusual else "measured"

    @cached_property
    def unusual(self) -> bool:
        """Whether it has layers whose kernels nobody measured: recurrent ones, and those of sparse attention."""
        mixers = [mixer for group in self.model.groups for mixer in group.mixers]
        return any(isinstance(mixer, Recurrent) or getattr(mixer, "indexer", None) for mixer in mixers)

    @cached_property
    def cache(self) -> CacheProfile:
        """One sequence's cache on one GPU, as the mathematics needs it."""
        return cache_profile(self.model, self.cache_dtype, layout=self.layout)

    @cached_property
    def peak_flops(self) -> float:
        """Dense peak, in FLOP/s, of the element type in which most weights multiply."""
        parameters: dict[str, int] = {}
        for group in self.model.groups:
            for tensor in group.tensors:
                if tensor.matmul:
                    compute = tensor.format.compute
                    parameters[compute] = parameters.get(compute, 0) + group.count * tensor.parameters
        most = max(parameters, key=lambda name: parameters[name], default=self.model.dtype)
        return arithmetic(self.machine.gpu, most)[1]
