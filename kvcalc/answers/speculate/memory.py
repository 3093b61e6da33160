"""What a draft takes of the memory: its weights, and its own cache beside the target's."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question, stored_as
from kvcalc.answers.speculate.drafter import Drafter
from kvcalc.counting.cache import cache_profile
from kvcalc.engines import capacity, loaded_weight_bytes
from kvcalc.engines.capacity import Capacity
from kvcalc.errors import KvcalcError
from kvcalc.results.speculate import DraftMemory
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import LayerGroup, ModelSpec


def as_served(draft: ModelSpec, dtype: str, quantization: str | None) -> ModelSpec:
    """Engines load a draft that is not quantized in the target's element type."""
    return stored_as(draft, Deployment(dtype=dtype, quantization=quantization))


def draft_deployment(target: Deployed, draft: ModelSpec) -> tuple[Deployment, tuple[Assumption, ...]]:
    """The draft runs on the target's tensor-parallel ranks where it divides, else whole on each of them."""
    same = replace(
        target.deployment,
        pipeline_parallel_size=1,
        enable_expert_parallel=False,
        decode_context_parallel_size=1,
        num_speculative_tokens=0,
        quantization=None,
        dtype="auto",
    )
    try:
        loaded_weight_bytes(draft, same)
    except KvcalcError as error:
        why = f"{error.message}: the draft is whole on each GPU"
        alone = replace(same, tensor_parallel_size=1)
        return alone, (Assumption(name="draft tensor_parallel_size", value=1, why=why),)
    return same, ()


def deploy_draft(target: Deployed, drafter: Drafter) -> tuple[Deployed | None, tuple[Assumption, ...]]:
    """The model that a draft pass runs, on the target's GPUs; None where nothing runs."""
    if drafter.model is None:
        return None, ()
    deployment, assumed = draft_deployment(target, drafter.model)
    asked = Question(
        model=drafter.model, gpu=target.gpu, deployment=deployment, workload=target.question.workload
    )  # fmt: skip
    return Deployed(asked), assumed


def draft_memory(target: Deployed, draft: Deployed | None, drafter: Drafter, context: int, gamma: int) -> DraftMemory:
    """The batch that fits shrinks by the draft's weights, by its cache, and by the slots of tokens in flight."""
    without = target.max_batch(context)
    if draft is None or drafter.own is None:
        fitting = (
            None if target.pool_bytes is None else _held(target, target.pool_bytes, gamma).max_batch(context + gamma)
        )
        return DraftMemory(weight_bytes=0, cache_bytes_per_token=0, max_batch=fitting, max_batch_without=without)
    weights = loaded_weight_bytes(drafter.own, draft.deployment)
    profile = cache_profile(drafter.own, target.cache_dtype, layout=draft.deployment.layout)
    per_token = profile.growth_at(context)
    fitting = None
    if target.pool_bytes is not None:
        pool = target.pool_bytes if target.budget.pool_given else max(0, target.pool_bytes - weights)
        fitting = _max_batch(target, drafter.own, draft.deployment, pool, context, gamma)
    return DraftMemory(
        weight_bytes=weights, cache_bytes_per_token=per_token, max_batch=fitting, max_batch_without=without
    )


def _held(target: Deployed, pool: int, gamma: int, own: ModelSpec | None = None) -> Capacity:
    """What a pool holds while `gamma` tokens are drafted: engines keep a recurrent state of each.

    MTP layers come with `own`, where they draft.
    """
    bare = replace(target.model, mtp=())
    drafting = replace(target.deployment, num_speculative_tokens=gamma)
    return capacity(bare if own is None else _joined(bare, own), drafting, pool)


def _max_batch(
    target: Deployed, own: ModelSpec, deployment: Deployment, pool: int, context: int, gamma: int
) -> int | None:
    """Layers of both models share the pool as an engine lays them out; where it cannot, by their bytes."""
    reach = context + gamma
    divided = deployment.tensor_parallel_size == target.deployment.tensor_parallel_size
    if target.deployment.pipeline_parallel_size == 1 and divided:
        try:
            return _held(target, pool, gamma, own).max_batch(reach)
        except KvcalcError:
            pass
    alone = _held(target, pool, gamma).max_batch(reach)
    stored = target.profile.stored(reach)
    more = cache_profile(own, target.cache_dtype, layout=deployment.layout).stored(reach)
    return None if alone is None or not stored else int(alone * stored / (stored + more))


def _joined(target: ModelSpec, own: ModelSpec) -> ModelSpec:
    """One model with the layers of both, numbered on."""
    shifted: list[LayerGroup] = []
    start = target.layers
    for group in own.groups:
        shifted.append(replace(group, layers=tuple(range(start, start + group.count))))
        start += group.count
    return replace(target, groups=(*target.groups, *shifted))
