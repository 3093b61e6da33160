"""vLLM: what its profile run finds, and what is left of the requested memory.

    pool = total * utilization - weights - non_torch - activation - graph estimate (since 0.21)

The terms are all there is: the identity closed within 0.03 GiB in 130 of 135 printed budgets.
"""

from kvcalc.engines.memory.budget import NOTHING, ByteRange, MemoryBudget
from kvcalc.engines.memory.data import since
from kvcalc.engines.memory.network import initial_use, non_torch
from kvcalc.engines.memory.settings import NOT_OBSERVED, Observed, VllmSettings, vllm_settings
from kvcalc.engines.memory.shape import ProfileShape
from kvcalc.engines.vllm.activation import activation_peak
from kvcalc.engines.vllm.graphs import graph_memory
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.gpu import GpuSpec


def budget(
    shape: ProfileShape,
    gpu: GpuSpec,
    deployment: Deployment,
    weights_bytes: int,
    lora: ByteRange = NOTHING,
    max_model_len: int | None = None,
    observed: Observed = NOT_OBSERVED,
) -> MemoryBudget:
    """The budget of the rank with the least room."""
    settings = vllm_settings(shape, gpu, deployment, max_model_len, observed)
    requested = int(gpu.usable_memory_bytes * settings.utilization)
    last = not (observed.inner_stage and deployment.pipeline_parallel_size > 1)
    activation = activation_peak(shape, gpu, deployment, settings, observed, last_stage=last)
    graphs, charged = graph_memory(shape, gpu, deployment, settings)
    notes = (*settings.assumptions, *_notes(deployment, settings))
    found = MemoryBudget(
        engine="vllm",
        engine_version=".".join(str(part) for part in settings.version),
        total=gpu.usable_memory_bytes,
        requested=requested,
        weights=weights_bytes,
        lora=lora,
        non_torch=non_torch(gpu, deployment, settings),
        activation=activation,
        graphs=graphs,
        graphs_charged=charged,
        initial_use=initial_use(deployment),
        pool=None,
        assumptions=notes,
    )
    left = requested - weights_bytes
    used = found.overhead
    pool = ByteRange(low=left - used.high, value=left - used.value, high=left - used.low)
    return replace(found, pool=pool)


def _notes(deployment: Deployment, settings: VllmSettings) -> list[Assumption]:
    notes = [
        Assumption(
            name="sampler",
            value="V2" if settings.runner == "V2" else settings.sampler,
            why="sets how many copies of the logits the profile run holds",
        )
    ]
    if since(settings.version, "0.27"):
        notes.append(
            Assumption(
                name="compile cache",
                value="warm",
                why="a first start compiles inside the profile run: up to 1 GiB less",
            )
        )
    if deployment.max_loras:
        notes.append(
            Assumption(
                name="adapters' workspace", value=0, why="slots are counted; what their kernels hold is not known"
            )
        )
    if deployment.enable_expert_parallel:
        notes.append(
            Assumption(
                name="all-to-all buffers", value=0, why="what DeepEP and EPLB allocate is not covered by any rule"
            )
        )
    if deployment.num_speculative_tokens:
        notes.append(
            Assumption(
                name="draft activations", value=0, why="no rule is known for what a draft adds to the profile run"
            )
        )
    return notes
