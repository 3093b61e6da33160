"""vLLM: what its profile run finds, and what is left of the requested memory.

    pool = total * utilization - weights - non_torch - activation - graph estimate (since 0.21)

The terms are all there is: the identity closed within 0.03 GiB in 130 of 135 printed budgets.

Source: determine_available_memory in vllm/v1/worker/gpu_worker.py; the terms' own files say what each rests on
"""

from kvcalc.engines.memory.budget import ByteRange, MemoryBudget
from kvcalc.engines.memory.start import Start
from kvcalc.engines.vllm.activation import activation_peak
from kvcalc.engines.vllm.graphs import graph_memory
from kvcalc.engines.vllm.network import initial_use, non_torch
from kvcalc.engines.vllm.settings import VllmSettings, vllm_settings
from kvcalc.engines.vllm.workspace import workspace
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.versions import since


def budget(start: Start) -> MemoryBudget:
    """The budget of the rank with the least room."""
    settings = vllm_settings(start)
    gpu, deployment = start.gpu, start.deployment
    requested = int(gpu.usable_memory_bytes * settings.utilization)
    graphs, charged = graph_memory(start.shape, gpu, deployment, settings)
    notes = (*settings.assumptions, *_notes(deployment, settings))
    found = MemoryBudget(
        engine="vllm",
        engine_version=".".join(str(part) for part in settings.version),
        total=gpu.usable_memory_bytes,
        requested=requested,
        weights=start.weights_bytes,
        lora=start.lora,
        non_torch=non_torch(gpu, deployment, settings, start.shape.moe),
        workspace=workspace(start, settings),
        activation=activation_peak(start, settings),
        graphs=graphs,
        graphs_charged=charged,
        initial_use=initial_use(gpu, deployment, start.shape.moe),
        pool=None,
        assumptions=notes,
    )
    left = requested - start.weights_bytes
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
    if deployment.experts_over_replicas:
        why = "without --enable-expert-parallel each expert is sliced over the ranks of all replicas, as vLLM does"
        notes.append(Assumption(name="slices of an expert", value=deployment.expert_slices, why=why))
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
