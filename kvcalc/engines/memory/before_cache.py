"""Memory before the cache: from a GPU's total to the pool.

Source: each engine's `memory.py`; what is given outright stands for what would be predicted
"""

from kvcalc.counting.prefetch import prefetch_of
from kvcalc.engines.contract import Memory, Rules
from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.engines.memory.lora import adapter_bytes
from kvcalc.engines.memory.shape import profile_shape
from kvcalc.engines.memory.shared import beside_the_host, elsewhere
from kvcalc.engines.memory.start import NOT_OBSERVED, Observed, Start
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import ModelSpec


def start_of(
    model: ModelSpec,
    gpu: GpuSpec,
    deployment: Deployment,
    weights_bytes: int,
    observed: Observed = NOT_OBSERVED,
) -> Start:
    """A start of this model, its dimensions read off the spec.

    Args:
        model: read for the dimensions that the profile run depends on.
        gpu: its usable memory is what the driver reports.
        deployment: engine, version, flags; what is not given is taken from the engine's defaults, as assumptions.
        weights_bytes: bytes of weights on the fullest GPU, as loaded.
        observed: what a start-up log says and no flag does.
    """
    prefetch = prefetch_of(model, deployment)
    if prefetch is not None:
        weights_bytes = max(0, weights_bytes - prefetch.freed_bytes)
    return Start(
        shape=profile_shape(model, deployment),
        gpu=gpu,
        deployment=deployment,
        weights_bytes=weights_bytes,
        lora=adapter_bytes(model, deployment),
        max_model_len=deployment.max_model_len or model.max_context,
        observed=observed,
    )


def budget_of(start: Start, engine: Memory, rules: Rules) -> MemoryBudget:
    """Where one GPU's memory goes, what was given outright in the place of what is predicted."""
    deployment = start.deployment
    read_there = 0 if deployment.offload_group_size else deployment.cpu_offload_bytes
    on_gpu = max(0, start.weights_bytes - read_there)
    found = engine.budget(start._replace(weights_bytes=on_gpu))
    if start.gpu.unified_memory and rules.TIMED:
        found = beside_the_host(found, start.gpu, rules.ASKS_FOR_SHARE)
    elif rules.OFFLOADS:  # what is served from desktops too
        found = replace(found, assumptions=(*found.assumptions, *elsewhere(start.gpu)))
    found = replace(found, warnings=(*found.warnings, *_of_drafts(deployment)))
    return _judged(_overridden(found, start))


def _of_drafts(deployment: Deployment) -> tuple[str, ...]:
    """What is not known of a draft."""
    if deployment.draft is None or deployment.draft_unread is None:
        return ()
    why = f"--draft {deployment.draft[:60]} cannot be read ({deployment.draft_unread})"
    return (f"{why}: its weights, cache and graphs are missing, and the pool is smaller than said",)


def _overridden(found: MemoryBudget, start: Start) -> MemoryBudget:
    """`--overhead` replaces what was predicted, `--kv-memory` sets the pool outright."""
    deployment = start.deployment
    if deployment.overhead_bytes is not None:
        given = ByteRange.exactly(deployment.overhead_bytes)
        left = found.requested - found.weights - deployment.overhead_bytes
        why = "given: replaces the prediction"
        assumed = Assumption(name="overhead", value=deployment.overhead_bytes, why=why)
        found = replace(
            found,
            given_overhead=given,
            pool=ByteRange.exactly(left),
            reason=None,
            assumptions=(*found.assumptions, assumed),
        )
    asked = start.asked_cache_bytes if deployment.kv_memory_bytes is None else deployment.kv_memory_bytes
    if asked is not None:
        pool = ByteRange.exactly(asked)
        found = replace(found, pool=pool, pool_given=True, reason=None)
    return found


def _judged(found: MemoryBudget) -> MemoryBudget:
    """Whether the engine starts: a pool above zero, and a card that holds everything."""
    if found.pool is None:
        return found
    return replace(found, starts=found.starts_at("value"))
