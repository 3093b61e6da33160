"""What the shell offers for a half-typed name or value."""

from collections.abc import Callable, Iterable
from typing import Any, Literal, get_args, get_origin

Offer = Callable[[str], list[str]]


def models(incomplete: str) -> list[str]:
    """Cards."""
    from kvcalc.catalog.cards import card_names

    return _beginning(incomplete, card_names())


def gpus(incomplete: str) -> list[str]:
    """GPU specs."""
    from kvcalc.catalog.gpus import gpu_names

    return _beginning(incomplete, gpu_names())


def _drafts(incomplete: str) -> list[str]:
    """Methods, and cards."""
    from kvcalc.answers.speculate.drafter import methods

    return [*_beginning(incomplete, (one["names"][0] for one in methods())), *models(incomplete)]


def _quantizations(incomplete: str) -> list[str]:
    from kvcalc.catalog.quantization.online import FORMATS

    return _beginning(incomplete, sorted(FORMATS))


def _cache_dtypes(incomplete: str) -> list[str]:
    from kvcalc.counting.cache import CACHE_DTYPES

    return _beginning(incomplete, ("auto", *CACHE_DTYPES))


def _dtypes(incomplete: str) -> list[str]:
    return _beginning(incomplete, ("auto", "bf16", "fp16", "fp32"))


OFFERS: dict[str, Offer] = {
    "gpu": gpus, "model": models, "draft": _drafts, "quantization": _quantizations, "kv_cache_dtype": _cache_dtypes,
    "dtype": _dtypes, "draft_quantization": _quantizations,
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
