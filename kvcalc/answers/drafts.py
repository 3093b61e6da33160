"""A draft beside the target: what it takes of the memory, in every command that takes a deployment.

Engines lay a draft's layers out as they do a model's own multi-token-prediction layers: after the last layer, on the
last stage, loaded only to speculate. So the draft becomes the target's `mtp`, and memory is counted as any model's.
"""

from kvcalc.answers.speculate.drafter import Drafter, Tree, drafter, method
from kvcalc.counting.weights import groups_bytes
from kvcalc.engines import loaded_weight_bytes, rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Attention, CrossAttention, LayerGroup, Mixer, ModelSpec, Recurrent


def with_draft(model: ModelSpec, deployment: Deployment) -> tuple[ModelSpec, Deployment]:
    """The target with its draft's layers, where `--draft` names one.

    A draft that cannot be read is left out, and the deployment says so.

    Raises KvcalcError without --num-speculative-tokens, for a method that the target has no layers for, and for the
    lessons, which count no drafts.
    """
    name = deployment.draft
    if name is None:
        return model, deployment
    if not rules(deployment.engine).TIMED:
        raise KvcalcError("the lessons count no drafts in memory", hint="leave --draft out, or use --engine vllm")
    if not deployment.num_speculative_tokens:
        raise KvcalcError(f"--draft {name[:40]} drafts how many tokens?", hint="give --num-speculative-tokens")
    try:
        found = as_served(drafter(model, name, tree=Tree()), model)
    except KvcalcError as error:
        if method(name) is not None:
            raise
        return model, replace(deployment, draft_unread=error.message)
    said = [] if found.own is None else [
        Assumption(name="draft", value=name, why="its weights and its cache are beside the target's"),
        *found.own.assumptions,
        *found.assumptions,
        *draft_deployment(found.own, deployment)[1],
    ]  # fmt: skip
    drafted = beside(model, found, deployment)
    return replace(drafted, assumptions=(*drafted.assumptions, *said)), deployment


def beside(model: ModelSpec, found: Drafter, deployment: Deployment) -> ModelSpec:
    """The target with what its drafter takes beside it, as layers after the target's own."""
    if found.kind == "mtp":
        return model
    groups = () if found.own is None else _layers(found.own, model.layers, deployment)
    file_bytes = model.weight_file_bytes
    if file_bytes is not None:
        file_bytes += groups_bytes(groups) - groups_bytes(model.mtp)
    return replace(model, mtp=groups, weight_file_bytes=file_bytes)


def as_served(found: Drafter, target: ModelSpec, quantization: str | None = None) -> Drafter:
    """Engines load a draft model that is not quantized in the target's element type."""
    if found.model is None or found.kind != "model":
        return found
    from kvcalc.answers.question import stored_as

    stored = stored_as(found.model, Deployment(dtype=target.dtype, quantization=quantization))
    return replace(found, model=stored, own=stored)


def draft_deployment(own: ModelSpec, target: Deployment) -> tuple[Deployment, tuple[Assumption, ...]]:
    """The draft runs on the target's tensor-parallel ranks where it divides, else whole on each of them."""
    same = replace(
        target,
        pipeline_parallel_size=1,
        enable_expert_parallel=False,
        decode_context_parallel_size=1,
        num_speculative_tokens=0,
        acceptance=(),
        quantization=None,
        dtype="auto",
        draft=None,
        cpu_offload_bytes=0,  # what stays with the host is of the target
        offload_group_size=0,
    )
    try:
        loaded_weight_bytes(own, same)
    except KvcalcError as error:
        why = f"{error.message}: the draft is whole on each GPU"
        alone = replace(same, tensor_parallel_size=1)
        return alone, (Assumption(name="draft tensor_parallel_size", value=1, why=why),)
    return same, ()


def _layers(own: ModelSpec, start: int, deployment: Deployment) -> tuple[LayerGroup, ...]:
    """The draft's layers numbered on from `start`, then what it has outside them as one more."""
    groups: list[LayerGroup] = []
    for group in own.groups:
        groups.append(replace(group, layers=tuple(range(start, start + group.count))))
        start += group.count
    if own.tensors:
        groups.append(LayerGroup(layers=(start,), tensors=own.tensors, prefix="draft"))
    divided = draft_deployment(own, deployment)[0].tensor_parallel_size == deployment.tensor_parallel_size
    return tuple(groups) if divided else tuple(_whole(group, deployment.tensor_parallel_size) for group in groups)


def _whole(group: LayerGroup, ranks: int) -> LayerGroup:
    """A layer of which each of the ranks holds all: nothing of it divides, and a rank's share of its heads is all."""
    tensors = tuple(replace(tensor, split="whole") for tensor in group.tensors)
    return replace(group, tensors=tensors, mixers=tuple(_for_each(mixer, ranks) for mixer in group.mixers))


def _for_each(mixer: Mixer, ranks: int) -> Mixer:
    if isinstance(mixer, Attention | CrossAttention):
        return replace(mixer, query_heads=mixer.query_heads * ranks, kv_heads=mixer.kv_heads * ranks)
    if isinstance(mixer, Recurrent):
        wide = {name: getattr(mixer, name) * ranks for name in ("heads", "state_elements", "conv_channels")}
        return replace(mixer, **wide)
    return mixer  # latents are whole on every rank
