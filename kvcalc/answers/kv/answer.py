"""`kvcalc kv`: what one token and one sequence of cache cost."""

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

from kvcalc.answers.kv.working import against, memories, sequence_figures, token_figures
from kvcalc.answers.question import Question, runs_beyond
from kvcalc.answers.unused import unused
from kvcalc.catalog.gpus import load_gpu
from kvcalc.counting.cache import CacheProfile, cache_profile, element_bytes
from kvcalc.counting.layout_check import check_layout
from kvcalc.engines import cache_dtype, capacity, rules
from kvcalc.results.base import Figure
from kvcalc.results.kv import GpuMemory, KvGroup, KvModel, KvPoint, KvReport, KvResult
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import BATCHED_TOKENS, Deployment
from kvcalc.specs.load import Workload
from kvcalc.specs.model import ModelSpec
from kvcalc.specs.variants import architecture_variants
from kvcalc.units import format_count

USUAL_CONTEXTS = (2048, 8192, 32768, 131072)
COMMON_GPUS = ("rtx-4090", "l40s", "a100-80g-sxm", "h100-sxm", "h200-sxm", "b200-sxm")
AS_IT_IS = "as it is"
ACCURACY = Assumption(
    name="accuracy",
    value=None,
    why="what a smaller cache dtype or another architecture does to the model's answers is not modelled",
)


def kv(
    models: Iterable[ModelSpec],
    deployment: Deployment,
    contexts: tuple[int, ...] = (),
    batch: int = 1,
    cache_dtypes: tuple[str, ...] = (),
    given: frozenset[str] = frozenset(),
) -> KvReport:
    """Every model with every cache dtype side by side; one model alone is also shown with other caches.

    `given`: fields of the deployment that the user set; those that change no figure are listed.
    """
    models = tuple(models)
    rows: list[KvModel] = []
    figures: list[Figure] = []
    for model, dtype in product(models, cache_dtypes or ("auto",)):
        check_layout(model, deployment.layout)
        typed = replace(deployment, kv_cache_dtype=dtype)
        resolved = cache_dtype(model, typed)
        rows.append(_model(model, AS_IT_IS, resolved, typed, contexts or _contexts(model)))
        figures += [*token_figures(model, resolved), *sequence_figures(model, rows[-1], typed, batch)]
    others = _variants(models[0], rows[0], deployment, contexts) if len(rows) == 1 else ()
    changed = dict(architecture_variants(models[0]))
    for other in others:
        figures += sequence_figures(changed.get(other.variant, models[0]), other, deployment, 1)
    memory = tuple(_memory(name) for name in COMMON_GPUS)
    asked = Question(models[0], None, deployment, Workload(), given=given)
    longest = max(contexts, default=0)
    exceeded = tuple(_exceeded(models, longest))
    return KvReport(
        inputs=_inputs(models, rows, deployment, batch, cache_dtypes),
        result=KvResult(
            models=tuple(rows),
            engine=deployment.engine,
            variants=others,
            batch=batch,
            gpus=memory,
        ),
        figures=(*figures, *against(rows[0], others), *memories(memory)),
        assumptions=(
            *(one for model in models for one in model.assumptions),
            ACCURACY,
            *unused(asked, lambda one: kv(models, one.deployment, contexts, batch, cache_dtypes).result),
            *_in_flight(models, deployment),
            *(runs_beyond("context", longest, limit) for limit in exceeded),
        ),
        sources=tuple(source for model in models for source in model.sources),
        warnings=(
            *(f"{model.name}: {said}" for model in models for said in model.warnings),
            *(f"a context of {format_count(longest)} is above {limit}" for limit in exceeded),
        ),
    )


def _inputs(
    models: tuple[ModelSpec, ...],
    rows: list[KvModel],
    deployment: Deployment,
    batch: int,
    cache_dtypes: tuple[str, ...],
) -> dict[str, Any]:
    return {
        "models": [model.name for model in models],
        "kv_cache_dtype": list(cache_dtypes) or ["auto"],
        "context": sorted({point.context for row in rows for point in row.by_context}),
        "batch": batch,
        "engine": deployment.engine,
        "tensor_parallel_size": deployment.tensor_parallel_size,
    }


def _exceeded(models: Iterable[ModelSpec], context: int) -> Iterator[str]:
    """The maxima of models that this context is above."""
    for model in models:
        if model.max_context is not None and context > model.max_context:
            yield f"the maximum of {model.name}, {format_count(model.max_context)}"


def _in_flight(models: Iterable[ModelSpec], deployment: Deployment) -> tuple[Assumption, ...]:
    windows = any(getattr(mixer, "window", None) for model in models for g in model.groups for mixer in g.mixers)
    if not rules(deployment.engine).KEEPS_IN_FLIGHT or deployment.max_num_batched_tokens is not None or not windows:
        return ()
    why = "what a server takes on GPUs of 70 GiB or more; room for it is kept in layers with a window"
    return (Assumption(name="max_num_batched_tokens", value=BATCHED_TOKENS, why=why),)


def _contexts(model: ModelSpec) -> tuple[int, ...]:
    longest = model.max_context
    if longest is None:
        return USUAL_CONTEXTS
    return tuple(sorted({context for context in USUAL_CONTEXTS if context < longest} | {longest}))


def _memory(name: str) -> GpuMemory:
    gpu = load_gpu(name)
    return GpuMemory(name=gpu.title, memory_bytes=gpu.usable_memory_bytes)


def _model(model: ModelSpec, variant: str, dtype: str, deployment: Deployment, contexts: tuple[int, ...]) -> KvModel:
    profile = cache_profile(model, dtype, state_dtype=deployment.state_dtype)
    return KvModel(
        name=model.name,
        variant=variant,
        cache_dtype=dtype,
        bytes_per_token=profile.bytes_per_token,
        bytes_per_token_at_start=profile.bytes_per_token_at_start,
        fixed_bytes_per_sequence=profile.fixed_bytes,
        max_context=model.max_context,
        groups=_groups(profile),
        by_context=tuple(
            KvPoint(
                context=context,
                bytes=profile.stored(context),
                read_bytes=profile.read(context),
                engine_bytes_per_gpu=_set_aside(model, dtype, deployment, context),
            )
            for context in contexts
        ),
        ratio=1.0,
    )


def _set_aside(model: ModelSpec, dtype: str, deployment: Deployment, context: int) -> int | None:
    """What the engine keeps free on each GPU for one sequence of this length; None: `ideal` keeps nothing else."""
    if not rules(deployment.engine).TIMED:
        return None
    tokens = deployment.max_num_batched_tokens or BATCHED_TOKENS
    asked: dict[str, Any] = {"kv_cache_dtype": dtype, "max_num_batched_tokens": tokens, "max_model_len": context}
    if rules(deployment.engine).RESERVES_STATES:
        asked["max_num_seqs"] = 1  # this is one of all that may run
    return capacity(model, replace(deployment, **asked), 0).needed_bytes(context)


def _groups(profile: CacheProfile) -> tuple[KvGroup, ...]:
    return tuple(
        KvGroup(
            kind=group.kind,
            layers=group.layers,
            bytes_per_token=group.bytes_per_token,
            window=group.window,
            state_bytes=group.fixed_bytes,
            read_limit_tokens=group.read_limit,
        )
        for group in profile.groups
    )


def _variants(
    model: ModelSpec, shown: KvModel, deployment: Deployment, contexts: tuple[int, ...]
) -> tuple[KvModel, ...]:
    """The same model under other caches, so that what each trick saves is visible; what changes nothing is left out."""
    at = contexts or _contexts(model)
    dtype = shown.cache_dtype
    others = [
        _model(model, f"{other} cache", other, deployment, at)
        for other in rules(deployment.engine).SMALLER_CACHES
        if element_bytes(other) < element_bytes(dtype)
    ]
    others += [_model(other, name, dtype, deployment, at) for name, other in architecture_variants(model)]
    whole = shown.by_context[-1].bytes
    return tuple(
        replace(other, ratio=other.by_context[-1].bytes / whole)
        for other in others
        if whole and other.by_context != shown.by_context
    )
