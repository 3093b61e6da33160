"""Tensors beyond the usual ones, as the family tables list them."""

from collections.abc import Collection, Mapping

from kvcalc.catalog.config.families.expressions import size, switch
from kvcalc.catalog.config.families.traits import Extra, Size, Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError
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
        shape=tuple(_positive(keys, part, scope, extra.name) for part in extra.shape),
        category=extra.category,
        split=extra.split,
        copies=_positive(keys, extra.copies, scope, extra.name),
        matmul=extra.matmul,
        buffer=extra.buffer,
        format=FP32 if extra.fp32 else BF16,
    )


def _positive(keys: Keys, value: Size, scope: Mapping[str, int], name: str) -> int:
    found = size(keys, value, scope)
    if found < 1:
        raise KvcalcError(
            f"the config does not say {keys.path(str(value))}, a size of {name}", hint="add it to the config"
        )
    return found
