"""Tensors outside the layers: embedding, positions, final norm, head."""

from kvcalc.catalog.config.families.extras import extra_tensors
from kvcalc.catalog.config.families.sizes import size, switch
from kvcalc.catalog.config.families.tensors import linear, norm
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.model import Tensor


def outer_tensors(keys: Keys, traits: Traits, hidden: int, vocab: int, tied: bool) -> tuple[Tensor, ...]:
    """All of a decoder."""
    scope = {"hidden": hidden, "vocab": vocab}
    shape = size(keys, traits, traits.embedding_rows, scope), size(keys, traits, traits.embedding_width, scope)
    found = [Tensor(name=f"{traits.embedding}.weight", shape=shape, category="embedding", split="vocab")]
    found += position_table(keys, traits, hidden)
    name = traits.final_norm
    if name and switch(keys, traits, traits.norms_when.get(name, True)):
        found += norm(name, traits.norm, hidden)
    bias = switch(keys, traits, traits.head_bias)
    if not tied:
        found += linear(traits.head, size(keys, traits, traits.head_rows, scope), hidden, "head", "vocab", bias)
    elif bias:
        found.append(Tensor(name=f"{traits.head}.bias", shape=(vocab,), category="head", split="vocab"))
    return tuple(found + extra_tensors(keys, traits, ("model",), scope))


def position_table(keys: Keys, traits: Traits, hidden: int) -> list[Tensor]:
    """Learned positions, with the rows that some families leave before the first."""
    if not traits.positions:
        return []
    length = size(keys, traits, traits.position_length) or keys.need(
        "max_position_embeddings", "n_positions", "n_ctx", "max_seq_len"
    )
    shape = (length + traits.position_offset, hidden)
    return [Tensor(name=f"{traits.positions}.weight", shape=shape, category="position")]
