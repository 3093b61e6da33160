"""What the shell offers for a half-typed name or value."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args, get_origin

Offer = Callable[[str], list[str]]


def models(incomplete: str) -> list[str]:
    """Cards."""
    from kvcalc.catalog.cards import card_names

    return _beginning(incomplete, card_names())


def gpus(incomplete: str) -> list[str]:
    """GPU specs; clouds' machines once a letter of one is there, for there are hundreds."""
    from kvcalc.catalog.gpus import gpu_names
    from kvcalc.catalog.instances import all_instances

    machines = _beginning(incomplete, (machine.name for _, machine in all_instances())) if incomplete else []
    return [*_beginning(incomplete, gpu_names()), *machines]


def _drafts(incomplete: str) -> list[str]:
    """Methods, and cards."""
    from kvcalc.answers.speculate.drafter import methods

    return [*_beginning(incomplete, (one["names"][0] for one in methods())), *models(incomplete)]


def _quantizations(incomplete: str) -> list[str]:
    from kvcalc.catalog.quantization.gguf_recipe import type_names
    from kvcalc.catalog.quantization.online import FORMATS

    return _beginning(incomplete, [*sorted(FORMATS), *(name.lower() for name in type_names())])


def _cache_dtypes(incomplete: str) -> list[str]:
    from kvcalc.counting.cache import CACHE_DTYPES

    return _beginning(incomplete, ("auto", *CACHE_DTYPES))


def _ggml_dtypes(incomplete: str) -> list[str]:
    from kvcalc.engines.pages.dtypes import GGML

    return _beginning(incomplete, ("f16", "bf16", "f32", *GGML))


def _hosts(incomplete: str) -> list[str]:
    from kvcalc.catalog.ggml import host_names

    return _beginning(incomplete, host_names())


def _devices(incomplete: str) -> list[str]:
    return _beginning(incomplete, ("cpu", "cuda"))


def _formats(incomplete: str) -> list[str]:
    from kvcalc.cli.output import FORMATS, PICTURES

    return _beginning(incomplete, (*FORMATS, *PICTURES))


def _dtypes(incomplete: str) -> list[str]:
    return _beginning(incomplete, ("auto", "bf16", "fp16", "fp32"))


OFFERS: dict[str, Offer] = {
    "gpu": gpus, "model": models, "draft": _drafts, "quantization": _quantizations, "kv_cache_dtype": _cache_dtypes,
    "dtype": _dtypes, "draft_quantization": _quantizations, "cache_type_k": _ggml_dtypes, "cache_type_v": _ggml_dtypes,
    "device": _devices, "export": gpus, "mamba_ssm_cache_dtype": _dtypes,
    "host_memory_bandwidth": _hosts, "gpus_available": gpus, "format": _formats,
}  # fmt: skip


def offer_for(field: str) -> Offer:
    """What completes the value of a flag: names, or the few words that its field takes.

    >>> offer_for("engine")("l"), offer_for("batch")("")
    (['llamacpp'], [])
    """
    return OFFERS.get(field) or (lambda incomplete: _beginning(incomplete, _words(field)))


def _words(field: str) -> Iterable[str]:
    """The words that a field is one of, by its annotation."""
    from kvcalc.answers.plan.settings import PlanSettings
    from kvcalc.answers.simulate.settings import SimulateSettings
    from kvcalc.specs.checked import field_types
    from kvcalc.specs.deployment import Deployment

    for spec in (Deployment, SimulateSettings, PlanSettings):
        kind = field_types(spec).get(field)
        if kind is not None:
            return _literals(kind)
    return ()


def _literals(kind: Any) -> list[str]:
    if get_origin(kind) is Literal:
        return [str(word) for word in get_args(kind)]
    return [word for part in get_args(kind) for word in _literals(part)]


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete.lower())]
