"""A draft model beside the target: what it takes of the memory, in every command that takes a deployment.

Engines lay a draft's layers out as they do a model's own multi-token-prediction layers: after the last layer, on the
last stage, loaded only to speculate. So the draft becomes the target's `mtp`.
"""

from kvcalc.answers.speculate.drafter import Tree, drafter, method
from kvcalc.catalog.models import load_model
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import LayerGroup, ModelSpec


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
    if method(name) is None:
        try:
            own = load_model(name)
        except KvcalcError as error:
            return model, replace(deployment, draft_unread=error.message)
        return _beside(model, own, name), deployment
    found = drafter(model, name, tree=Tree())
    if found.kind == "mtp":
        return model, deployment
    if found.own is None:
        return replace(model, mtp=()), deployment
    return _beside(model, found.own, name), deployment


def _beside(model: ModelSpec, own: ModelSpec, name: str) -> ModelSpec:
    """The draft's layers, then what it has outside them, as layers after the target's."""
    groups: list[LayerGroup] = []
    start = model.layers
    for group in own.groups:
        groups.append(replace(group, layers=tuple(range(start, start + group.count))))
        start += group.count
    if own.tensors:
        groups.append(LayerGroup(layers=(start,), tensors=own.tensors, prefix="draft"))
    taken = Assumption(name="draft", value=name, why="its weights and its cache are beside the target's")
    return replace(model, mtp=tuple(groups), assumptions=(*model.assumptions, *own.assumptions, taken))
