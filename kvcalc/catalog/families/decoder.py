"""A decoder: its groups of equal layers, and the tensors outside them."""

from kvcalc.catalog.families.attention import attention
from kvcalc.catalog.families.compressed import compressed
from kvcalc.catalog.families.extras import extra_tensors
from kvcalc.catalog.families.latent import latent
from kvcalc.catalog.families.mlp import dense, moe
from kvcalc.catalog.families.plan import Layer, read_plan
from kvcalc.catalog.families.expressions import switch
from kvcalc.catalog.families.tensors import linear, norm
from kvcalc.catalog.families.traits import Traits
from kvcalc.catalog.keys import Keys
from kvcalc.catalog.recurrent import read_recurrent
from kvcalc.specs.model import LayerGroup, Mixer, Mlp, Tensor


def read_groups(keys: Keys, traits: Traits, hidden: int) -> tuple[LayerGroup, ...]:
    """Equal layers together, in the order in which each kind first comes."""
    where: dict[Layer, list[int]] = {}
    for index, layer in enumerate(read_plan(keys, traits)):
        where.setdefault(layer, []).append(index)
    return tuple(
        _group(keys.over(dict(layer.says)), traits, hidden, layer, indices) for layer, indices in where.items()
    )


def _group(keys: Keys, traits: Traits, hidden: int, layer: Layer, indices: list[int]) -> LayerGroup:
    mixers: list[Mixer] = []
    tensors: list[Tensor] = []
    scope = {"hidden": hidden}
    if layer.mixer != "none":
        mixer, found, sizes = _attention(keys, traits, layer, hidden)
        mixers.append(mixer)
        tensors += found
        scope |= sizes
    if layer.recurrent:
        state, more = read_recurrent(keys, hidden, traits.recurrent)
        mixers.append(state)
        tensors += more
    mlp: Mlp | None = None
    if layer.mlp == "dense":
        mlp, found = dense(keys, traits, hidden)
        tensors += found
        scope["width"] = mlp.width
    elif layer.mlp != "none":
        mlp, found, sizes = moe(keys, traits, hidden)
        tensors += found
        scope |= sizes
    tensors += [t for name in traits.norms for t in _layer_norm(keys, traits, name, hidden)]
    tensors += extra_tensors(keys, traits, layer.tags, scope)
    return LayerGroup(
        layers=tuple(indices), mixers=tuple(mixers), mlp=mlp, tensors=tuple(tensors), prefix=traits.layers
    )


def _attention(keys: Keys, traits: Traits, layer: Layer, hidden: int) -> tuple[Mixer, list[Tensor], dict[str, int]]:
    if "compressed" in layer.mixer:
        return compressed(keys, traits, layer, hidden)
    if keys.has("kv_lora_rank"):
        return latent(keys, traits, layer, hidden)
    return attention(keys, traits, layer, hidden)


def _layer_norm(keys: Keys, traits: Traits, name: str, hidden: int) -> list[Tensor]:
    name, _, when = name.partition(" if ")
    return norm(name, traits.norm, hidden) if not when or switch(keys, when) else []


def outer_tensors(keys: Keys, traits: Traits, hidden: int, vocab: int, tied: bool) -> tuple[Tensor, ...]:
    """Embedding, positions, final norm, head, and whatever else is outside the layers."""
    found = [Tensor(name=f"{traits.embedding}.weight", shape=(vocab, hidden), category="embedding", split="vocab")]
    if traits.positions:
        length = keys.need("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len") + traits.position_offset
        found.append(Tensor(name=f"{traits.positions}.weight", shape=(length, hidden), category="position"))
    if traits.final_norm:
        found += norm(traits.final_norm, traits.norm, hidden)
    bias = switch(keys, traits.head_bias)
    if not tied:
        found += linear(traits.head, vocab, hidden, "head", "vocab", bias)
    elif bias:
        found.append(Tensor(name=f"{traits.head}.bias", shape=(vocab,), category="head", split="vocab"))
    scope = {"hidden": hidden, "vocab": vocab}
    return tuple(found + extra_tensors(keys, traits, ("model",), scope))
