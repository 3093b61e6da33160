"""The working behind a cache: what each kind of layer stores of a token, and what a sequence of a length adds up to."""

from collections.abc import Iterator, Sequence

from kvcalc.answers.explain import explain, figure_of, labelled, total
from kvcalc.counting.cache import CacheGroup, cache_profile, element_bytes
from kvcalc.formulas import cache as formulas
from kvcalc.results.base import Figure
from kvcalc.results.kv import GpuMemory, KvModel
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import Attention, LatentAttention, ModelSpec
from kvcalc.units import format_count

GROWING = "each kind of layer up to its window, and what does not grow: docs/explanation/cache.md"
SET_ASIDE = "whole blocks, padding and tokens in flight, by the engine's rules: docs/explanation/memory.md"


def token_figures(model: ModelSpec, dtype: str) -> Iterator[Figure]:
    """The formula of each group of plain and latent attention layers, its values put in."""
    for group in model.groups:
        for mixer in group.mixers:
            if isinstance(mixer, Attention) and mixer.owns_cache and mixer.head_dim == mixer.v_head_dim:
                yield explain(
                    formulas.kv_bytes_per_token,
                    name=f"{model.name}: cache of a token in {group.count} {mixer.pattern} layers ({dtype})",
                    layers=group.count,
                    kv_heads=mixer.kv_heads,
                    head_dim=mixer.head_dim,
                    bytes_per_element=element_bytes(dtype),
                )
            elif isinstance(mixer, LatentAttention):
                yield explain(
                    formulas.mla_elements_per_token,
                    name=f"{model.name}: cached elements of a token in {group.count} latent layers",
                    layers=group.count,
                    kv_lora_rank=mixer.kv_lora_rank,
                    rope_head_dim=mixer.rope_head_dim,
                )


def sequence_figures(model: ModelSpec, shown: KvModel, deployment: Deployment, batch: int) -> Iterator[Figure]:
    """What a token adds, at first and once windows are full, and what each length comes to."""
    profile = cache_profile(model, shown.cache_dtype, state_dtype=deployment.state_dtype)
    yield from labelled(_label(shown), _growth(profile.groups))
    local = cache_profile(model, shown.cache_dtype, state_dtype=deployment.state_dtype, layout=deployment.layout)
    for point in shown.by_context:
        at = format_count(point.context)
        stored = {_kind(group): group.stored(point.context) for group in profile.groups}
        yield from labelled(_label(shown), _stored(profile.groups, at, point.context))
        one = total(f"one sequence of {at}", stored, "bytes", GROWING)
        yield from labelled(_label(shown), [one])
        if batch > 1:
            inputs = {"sequences": batch, "bytes_of_one": point.bytes}
            all_of_them = figure_of(f"{batch} sequences of {at}", "sequences * bytes_of_one", inputs, "bytes", GROWING)
            yield from labelled(_label(shown), [all_of_them])
        if point.read_bytes != point.bytes:
            read = {_kind(group): group.read(point.context) for group in profile.groups}
            yield from labelled(_label(shown), [total(f"read of {at} by a step", read, "bytes", GROWING)])
        if point.engine_bytes_per_gpu is not None:
            own = local.stored(point.context)
            parts = {"cache of the sequence": own, "beside it": point.engine_bytes_per_gpu - own}
            yield from labelled(_label(shown), [total(f"set aside for {at}", parts, "bytes", SET_ASIDE)])


def against(shown: KvModel, others: Sequence[KvModel]) -> Iterator[Figure]:
    """Each other cache against the model as it is, at the longest context."""
    whole = shown.by_context[-1].bytes
    for other in others:
        inputs = {"other_bytes": other.by_context[-1].bytes, "bytes_as_it_is": whole}
        yield from labelled(_label(other), [figure_of("against as it is", "other_bytes / bytes_as_it_is", inputs, "1",
                                                      "arithmetic")])  # fmt: skip


def memories(gpus: Sequence[GpuMemory]) -> Iterator[Figure]:
    """The memory of the GPUs that a cache is shown beside."""
    for gpu in gpus:
        inputs = {"usable_memory_bytes": gpu.memory_bytes}
        source = "the GPU's spec: `kvcalc gpus` gives its source"
        yield figure_of(f"memory of {gpu.name}", "usable_memory_bytes", inputs, "bytes", source)


def _kind(group: CacheGroup) -> str:
    return f"{group.kind}_layers_{group.layers}" + (f"_of_{group.window}" if group.window else "")


def _label(shown: KvModel) -> str:
    return f"{shown.name}, {shown.variant}, {shown.cache_dtype}"


def _growth(groups: Sequence[CacheGroup]) -> Iterator[Figure]:
    first = {_kind(group): group.bytes_per_token for group in groups if group.bytes_per_token}
    full = {_kind(group): group.bytes_per_token for group in groups if group.bytes_per_token and group.window is None}
    fixed = {_kind(group): group.fixed_bytes for group in groups if group.fixed_bytes}
    yield total("bytes per token", full, "bytes/token", GROWING)
    if first != full:
        yield total("bytes per token at first", first, "bytes/token", GROWING)
    if fixed:
        yield total("fixed bytes of a sequence", fixed, "bytes", GROWING)


def _stored(groups: Sequence[CacheGroup], at: str, context: int) -> Iterator[Figure]:
    """Of each kind of layer with a window, where more than one kind is added up."""
    for group in groups:
        if group.window is None or not group.bytes_per_token:
            continue
        inputs = {"fixed_bytes": group.fixed_bytes, "bytes_per_token": group.bytes_per_token,
                  "context": context, "window": group.window}  # fmt: skip
        formula = "fixed_bytes + bytes_per_token * min(context, window)"
        yield figure_of(f"{group.kind} layers at {at}", formula, inputs, "bytes", GROWING)
