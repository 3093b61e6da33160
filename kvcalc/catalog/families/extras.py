"""Tensors beyond the usual ones, as the family tables list them."""

from collections.abc import Collection, Mapping

from kvcalc.catalog.families.expressions import size, switch
from kvcalc.catalog.families.traits import Extra, Traits
from kvcalc.catalog.keys import Keys
from kvcalc.specs.formats import BF16, FP32
from kvcalc.specs.model import Tensor


def extra_tensors(keys: Keys, traits: Traits, tags: Collection[str], scope: Mapping[str, int]) -> list[Tensor]:
    """Those of one kind of layer, or (tag "model") of the model outside its layers."""
    return [
        _tensor(keys, extra, scope)
        for extra in traits.extra
        if any(set(on.split("&")) <= set(tags) for on in extra.on) and switch(keys, extra.when, scope)
    ]


def _tensor(keys: Keys, extra: Extra, scope: Mapping[str, int]) -> Tensor:
    return Tensor(
        name=extra.name,
        shape=tuple(size(keys, part, scope) for part in extra.shape),
        category=extra.category,
        split=extra.split,
        copies=size(keys, extra.copies, scope),
        matmul=extra.matmul,
        buffer=extra.buffer,
        format=FP32 if extra.fp32 else BF16,
    )
