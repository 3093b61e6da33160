"""A decoder: its groups of equal layers, and the tensors outside them."""

from kvcalc.catalog.families.attention import attention
from kvcalc.catalog.families.mlp import dense, moe
from kvcalc.catalog.families.plan import Layer, read_plan
from kvcalc.catalog.families.tensors import linear, norm
from kvcalc.catalog.families.traits import Traits, switch
from kvcalc.catalog.keys import Keys
from kvcalc.specs.model import LayerGroup, Mlp, Tensor


def read_groups(keys: Keys, traits: Traits, hidden: int) -> tuple[LayerGroup, ...]:
    """Equal layers together, in the order in which each kind first comes."""
    where: dict[Layer, list[int]] = {}
    for index, layer in enumerate(read_plan(keys, traits)):
        where.setdefault(layer, []).append(index)
    return tuple(_group(keys, traits, hidden, layer, indices) for layer, indices in where.items())


def _group(keys: Keys, traits: Traits, hidden: int, layer: Layer, indices: list[int]) -> LayerGroup:
    mixer, tensors = attention(keys, traits, layer, hidden)
    mlp: Mlp
    mlp, more = moe(keys, traits, hidden) if layer.mlp == "moe" else dense(keys, traits, hidden)
    norms = [t for name in traits.norms for t in norm(name, traits.norm, hidden)]
    return LayerGroup(
        layers=tuple(indices),
        mixers=(mixer,),
        mlp=mlp,
        tensors=tuple(tensors + more + norms),
        prefix=traits.layers,
    )


def outer_tensors(keys: Keys, traits: Traits, hidden: int, vocab: int, tied: bool) -> tuple[Tensor, ...]:
    """Embedding, positions, final norm and head."""
    found = [Tensor(name=f"{traits.embedding}.weight", shape=(vocab, hidden), category="embedding", split="vocab")]
    if traits.positions:
        length = keys.need("max_position_embeddings", "n_positions", "n_ctx") + traits.position_offset
        found.append(Tensor(name=f"{traits.positions}.weight", shape=(length, hidden), category="position"))
    found += norm(traits.final_norm, traits.norm, hidden)
    if not tied:
        found += linear(traits.head, vocab, hidden, "head", "vocab", switch(keys, traits.head_bias))
    return tuple(found)
