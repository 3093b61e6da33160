"""Tensors beyond the usual ones, as the family tables list them."""

from collections.abc import Collection, Mapping

from kvcalc.catalog.config.expression import evaluate
from kvcalc.catalog.config.families.sizes import scope, switch
from kvcalc.catalog.config.families.traits import Extra, Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.scope import Scope
from kvcalc.specs.formats import BF16, FP32
from kvcalc.specs.model import Tensor


def extra_tensors(keys: Keys, traits: Traits, tags: Collection[str], given: Mapping[str, int]) -> list[Tensor]:
    """Those of one kind of layer, or (tag "model") of the model outside its layers."""
    return [
        _tensor(extra, scope(keys, traits, given))
        for extra in traits.extra
        if evaluate(extra.on, tags.__contains__) and switch(keys, traits, extra.when, given)
    ]


def _tensor(extra: Extra, names: Scope) -> Tensor:
    return Tensor(
        name=extra.name,
        shape=tuple(names.at_least_one(side, extra.name) for side in extra.shape),
        category=extra.category,
        split=extra.split,
        copies=names.at_least_one(extra.copies, extra.name),
        matmul=extra.matmul,
        buffer=extra.buffer,
        format=FP32 if extra.fp32 else BF16,
    )
