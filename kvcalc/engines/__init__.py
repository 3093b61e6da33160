"""How a real engine spends its memory: one folder an engine, all with the same few functions (contract.py).

Nobody outside asks which engine it is: what differs is a function here, or one of the engine's `rules`.

Source: each engine's own module says where its rules were read; a function here only chooses the engine
"""

from functools import cache
from importlib import import_module
from typing import Any, cast, get_args

from kvcalc.counting.layout import pipeline_stages
from kvcalc.counting.layout_check import check_layout
from kvcalc.counting.prefetch import copied_layer_bytes
from kvcalc.engines.capacity import Capacity
from kvcalc.engines.contract import Dtypes, Log, Memory, Pools, Rules, Weights
from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.memory.before_cache import budget_of, start_of
from kvcalc.engines.memory.budget import MemoryBudget
from kvcalc.engines.memory.start import NOT_OBSERVED, Observed, Start
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Deployment, Engine
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.model import Mixer, ModelSpec, Recurrent

__all__ = [
    "Capacity",
    "admitted_sequences",
    "budget_of_start",
    "cache_dtype",
    "capacity",
    "check_runs",
    "check_version",
    "loaded_weight_bytes",
    "logged_settings",
    "memory_before_cache",
    "rules",
    "settled",
    "with_state_dtypes",
]


OF_ONE_ENGINE = (
    "offline",
    "max_mamba_cache_size",
    "enable_dp_attention",
    "enable_chunked_prefill",
    "ctx_size",
    "parallel",
)  # fields: each is some engine's OWN


@cache
def rules(engine: str) -> Rules:
    """What an engine is like.

    >>> rules("vllm").TIMED, rules("ideal").TIMED, rules("llamacpp").FLAGS["--max-model-len"]
    (True, False, '-c')

    Raises KvcalcError for a name that is no engine's.
    """
    if engine not in get_args(Engine):
        raise KvcalcError(f"unknown engine {engine[:40]!r}", hint=f"use one of {', '.join(get_args(Engine))}")
    return cast(Rules, import_module(f"kvcalc.engines.{engine}.rules").RULES)


def check_runs(engine: str, gpu: GpuSpec) -> None:
    """Raise KvcalcError where there is no build of the engine for an accelerator."""
    if gpu.vendor in rules(engine).NOT_ON:
        others = [name for name in get_args(Engine) if rules(name).TIMED and gpu.vendor not in rules(name).NOT_ON]
        hint = f"use --engine {' or '.join(others)}"
        raise KvcalcError(f"{rules(engine).TITLE} does not run on {gpu.title}", hint=hint)


def capacity(model: ModelSpec, deployment: Deployment, pool_bytes: int) -> Capacity:
    """What the cache of one replica holds when each GPU has `pool_bytes` for it.

    Raises KvcalcError where the engine does not serve the model so.
    """
    if pool_bytes < 0:
        raise KvcalcError(f"the pool cannot be {pool_bytes} bytes", hint="give --kv-memory a size of zero or more")
    check_version(deployment)
    check_layout(model, deployment.layout)
    cast(Weights, _part(deployment.engine, "weights")).check(model, deployment)
    if deployment.decode_context_parallel_size > 1 and not rules(deployment.engine).SHARES_SEQUENCES:
        raise KvcalcError(
            f"how {deployment.engine} shares a sequence's cache between GPUs is not known",
            hint="leave --decode-context-parallel-size out, or use --engine vllm or ideal",
        )
    stages = pipeline_stages(model, deployment.pipeline_parallel_size)
    return cast(Pools, _part(deployment.engine, "capacity")).capacity(model, deployment, pool_bytes, stages)


def admitted_sequences(held: Capacity, deployment: Deployment) -> int | None:
    """Sequences that the engine runs at once with this pool where no flag says it; None: as many as have room.

    Unit: sequences of one replica
    """
    return cast(Pools, _part(deployment.engine, "capacity")).admitted(held, deployment)


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's element type under this engine: as asked, else as the checkpoint says, else as the engine does.

    Raises KvcalcError for a type that the engine does not keep.
    """
    return cast(Dtypes, _part(deployment.engine, "dtypes")).cache_dtype(model, deployment)


def with_state_dtypes(model: ModelSpec, deployment: Deployment) -> ModelSpec:
    """The model with the state's type on every recurrent mixer, as this engine keeps it.

    So memory, steps and serving count the same bytes. A model without recurrent layers is handed back as it is.
    """
    if not any(isinstance(mixer, Recurrent) for group in model.groups for mixer in group.mixers):
        return model
    rule = cast(Dtypes, _part(deployment.engine, "dtypes")).state_dtype

    def resolved(mixer: Mixer) -> Mixer:
        if not isinstance(mixer, Recurrent):
            return mixer
        return replace(mixer, state_dtype=rule(mixer, model, deployment))

    groups = tuple(replace(group, mixers=tuple(map(resolved, group.mixers))) for group in model.groups)
    return replace(model, groups=groups)


def loaded_weight_bytes(model: ModelSpec, deployment: Deployment, gpu: GpuSpec | None = None) -> int:
    """Bytes of weights on the fullest GPU, as this engine loads them.

    `ideal` divides the file evenly. Engines replicate, pad and round, keep a rotary table, and load draft layers only
    to speculate. The kernels of a GPU may want experts in a form of their own; None: as on GPUs without one.

    Raises KvcalcError where the model does not divide by the layout.

    Unit: bytes per GPU
    """
    return cast(Weights, _part(deployment.engine, "weights")).loaded_bytes(model, deployment, gpu)


def memory_before_cache(
    model: ModelSpec,
    gpu: GpuSpec,
    deployment: Deployment,
    weights_bytes: int,
    observed: Observed = NOT_OBSERVED,
) -> MemoryBudget:
    """Where one GPU's memory goes, and what is left for the cache, in bytes (`start_of` says what it is read from).

    Raises KvcalcError where the version is none that the engine can have.
    """
    engine = rules(deployment.engine)
    if engine.ASKS_FOR_SHARE and deployment.cpu_offload_bytes and engine.copies_weights(deployment.engine_version):
        weights_bytes += copied_layer_bytes(model, deployment)  # its profile run sees them
    start = start_of(model, gpu, deployment, weights_bytes, observed)
    stages = pipeline_stages(model, deployment.pipeline_parallel_size)
    asked = cast(Pools, _part(deployment.engine, "capacity")).asked(model, deployment, stages)
    return budget_of_start(start._replace(asked_cache_bytes=asked))


def budget_of_start(start: Start) -> MemoryBudget:
    """The same from dimensions alone: for a model of which no config is at hand."""
    check_version(start.deployment)
    engine = start.deployment.engine
    return budget_of(start, cast(Memory, _part(engine, "memory")), rules(engine))


def logged_settings(engine: str, facts: LogFacts) -> dict[str, Any]:
    """Fields of a Deployment that a start-up log says in this engine's own way."""
    return cast(Log, _part(engine, "log")).settings(facts)


def settled(model: ModelSpec, gpu: GpuSpec | None, deployment: Deployment) -> Deployment:
    """The deployment as its engine settles it by model and GPU, before anything is counted.

    Raises KvcalcError for a flag that another engine has, or a layout that does not divide.
    """
    _refuse_others_flags(deployment)
    return rules(deployment.engine).settled(model, gpu, deployment)


def _refuse_others_flags(deployment: Deployment) -> None:
    """A flag that would change nothing is no flag of this engine."""
    asked = [field for field in OF_ONE_ENGINE if getattr(deployment, field) not in (None, False)]
    for engine in get_args(Engine) if asked else ():
        for field in asked:
            if field in rules(engine).OWN and field not in rules(deployment.engine).OWN:
                flag = f"--{field.replace('_', '-')}"
                raise KvcalcError(
                    f"{flag} is a flag of {rules(engine).TITLE}, not of {rules(deployment.engine).TITLE}",
                    hint=f"leave it out, or use --engine {engine}",
                )


def check_version(deployment: Deployment) -> None:
    """Raise KvcalcError where the deployment's version is none that its engine can have."""
    if deployment.engine_version is not None:
        rules(deployment.engine).check_version(deployment.engine_version)


def _part(engine: str, name: str) -> object:
    """One module of one engine's folder: only what is asked for is loaded."""
    return import_module(f"kvcalc.engines.{engine}.{name}")
