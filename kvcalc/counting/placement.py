"""Which of a model's parts stay in the host's memory: llama.cpp's layers before the offloaded ones, experts of others.

    -ngl N          the last N of the layers and the output, which counts as one more, are on the GPU
    --n-cpu-moe N   the routed experts of the first N layers stay with the CPU

Source: llama.cpp, `src/llama-model.cpp`, load_tensors: i_gpu_start = n_layer + 1 - n_gpu_layers; common/arg.cpp,
--n-cpu-moe: a pattern for the ffn_(up|down|gate)_exps of blocks 0 to N - 1.
"""

from dataclasses import replace as with_place
from typing import NamedTuple

from kvcalc.counting.operators.matmul import head_operators
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.weights import stored_bytes
from kvcalc.counting.work import Operator, Step
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment, Layout
from kvcalc.specs.model import LayerGroup, ModelSpec

OUTSIDE = ("embedding", "send")


class HostPart(NamedTuple):
    """What stays with the CPU: the layers before `first`, and the experts of the layers before `experts`."""

    first: int = 0
    experts: int = 0
    output: bool = False


def host_part(model: ModelSpec, deployment: Deployment) -> HostPart | None:
    """The part of a model that llama.cpp's flags leave on the host; None: nothing but the input embedding.

    >>> from kvcalc.catalog.models import load_model
    >>> host_part(load_model("llama-3-8b"), Deployment(engine="llamacpp", n_gpu_layers=20))
    HostPart(first=13, experts=0, output=False)
    """
    asked, layers = deployment.n_gpu_layers, model.layers
    first = 0 if asked is None else max(layers + 1 - asked, 0)
    part = HostPart(min(first, layers), min(deployment.n_cpu_moe, layers), output=first > layers)
    return part if any(part) else None


def on_host(index: int, part: HostPart) -> bool:
    """Whether a whole layer stays on the host."""
    return index < part.first


def layers_of(model: ModelSpec, keep: range) -> ModelSpec:
    """The model with some of its layers."""
    groups = (replace(group, layers=tuple(i for i in group.layers if i in keep)) for group in model.groups)
    return replace(model, groups=tuple(group for group in groups if group.layers))


def host_weight_bytes(model: ModelSpec, part: HostPart) -> int:
    """Bytes of the weights that stay on the host, the input embedding left out.

    Unit: bytes
    """
    total = sum(_host_bytes(group, part) for group in model.groups)
    if part.output:
        total += sum(stored_bytes(tensor) for tensor in model.tensors if tensor.category == "head")
    return total


def _host_bytes(group: LayerGroup, part: HostPart) -> int:
    whole = sum(1 for index in group.layers if on_host(index, part))
    routed = sum(1 for index in group.layers if index < part.experts and not on_host(index, part))
    experts = sum(stored_bytes(tensor) for tensor in group.tensors if tensor.category == "experts")
    return whole * sum(stored_bytes(tensor) for tensor in group.tensors) + routed * experts


def placed_operators(
    model: ModelSpec, layout: Layout, step: Step, cache_dtype: str, part: HostPart
) -> tuple[Operator, ...]:
    """The operators of a step, those of the host marked: `place` says where each runs."""
    layers = model.layers
    bare = replace(model, tensors=(), tied_embeddings=False)

    def those(keep: range) -> tuple[Operator, ...]:
        found = step_operators(layers_of(bare, keep), layout, step, cache_dtype) if len(keep) else ()
        return tuple(one for one in found if one.kind not in OUTSIDE)

    middle = max(part.first, part.experts)
    host = [with_place(one, place="host") for one in those(range(part.first))]
    mixed = [
        with_place(one, place="host") if one.kind == "experts" else one for one in those(range(part.first, middle))
    ]
    device = those(range(middle, layers))
    whole = step_operators(model, layout, step, cache_dtype)
    outside = [one for one in whole if one.kind in OUTSIDE]
    head = head_operators(model, layout, step.split(layout.pipeline_parallel_size))
    outside += [with_place(one, place="host" if part.output else "device") for one in head]
    return (*host, *mixed, *device, *outside)
