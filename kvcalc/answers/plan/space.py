"""What a plan chooses from: GPUs, layouts, types of weights and cache, and settings. What a flag says is not varied."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.prices import priced_names
from kvcalc.counting.weights import weight_bytes
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec, MoeMlp

TENSOR_SIZES = (1, 2, 4, 8, 16)
STAGES = (1, 2, 4)  # of whole nodes
SMALL = 0.5  # of a node's memory: weights below it leave room for a cache, and nodes are better filled with replicas
ROOM_FOR_LONGER = 4  # mean requests in the context that is set where the model's own does not fit

Flags = dict[str, Any]


def gpus_of(names: Sequence[str]) -> tuple[GpuSpec, ...]:
    """Those that were given, else all that have a list price."""
    return tuple(load_gpu(name) for name in (names or sorted(priced_names())))


def choices(model: ModelSpec, gpu: GpuSpec, given: Mapping[str, list[Any]]) -> Iterator[Flags]:
    """The flags of each deployment of one GPU that is tried.

    Args:
        model: as it is stored.
        gpu: whose node limits the tensor-parallel size.
        given: by field, the values that were asked for: nothing else is tried of these.
    """
    layouts = list(_layouts(model, gpu, given))
    weights: list[Flags] = _only("quantization", given) or _weights(model, gpu)
    caches: list[Flags] = _only("kv_cache_dtype", given) or _caches(gpu)
    for layout, stored, cached in product(layouts, weights, caches):
        yield layout | stored | cached


def _only(field: str, given: Mapping[str, list[Any]]) -> list[Flags]:
    return [{field: value} for value in given.get(field, ())]


def _layouts(model: ModelSpec, gpu: GpuSpec, given: Mapping[str, list[Any]]) -> Iterator[Flags]:
    """Within a node first; several whole nodes as stages. Experts whole or cut."""
    node = gpu.gpus_per_node
    stages_tried = STAGES if weight_bytes(model) > SMALL * node * gpu.memory_bytes else (1,)
    routed = any(isinstance(group.mlp, MoeMlp) for group in model.groups)
    sizes = given.get("tensor_parallel_size") or [size for size in TENSOR_SIZES if size <= node]
    for size in sizes:
        stages = given.get("pipeline_parallel_size") or (stages_tried if int(size) == node > 1 else (1,))
        for stage, whole in product(stages, (False, True) if routed and int(size) > 1 else (False,)):
            layout: Flags = {"tensor_parallel_size": size}
            layout |= {"pipeline_parallel_size": stage} if int(stage) > 1 else {}
            yield layout | ({"enable_expert_parallel": True} if whole else {})


def _weights(model: ModelSpec, gpu: GpuSpec) -> list[Flags]:
    """As stored; a checkpoint that is not quantized also in eight bits, where the GPU computes in them."""
    if model.quantization is not None or gpu.peak("fp8") is None:
        return [{}]
    return [{}, {"quantization": "fp8"}]


def _caches(gpu: GpuSpec) -> list[Flags]:
    """As the checkpoint says; in eight bits, where the GPU computes in them."""
    return [{}] if gpu.peak("fp8") is None else [{}, {"kv_cache_dtype": "fp8"}]
