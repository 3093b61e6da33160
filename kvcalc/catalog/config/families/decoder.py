"""A decoder: its groups of equal layers. Mixers that few models have are imported where they are met."""

from collections.abc import Mapping

from kvcalc.catalog.config.families.attention import attention
from kvcalc.catalog.config.families.extras import extra_tensors
from kvcalc.catalog.config.families.mlp import dense, moe
from kvcalc.catalog.config.families.plan import read_plan
from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.sizes import size, switch
from kvcalc.catalog.config.families.tensors import linear, norm
from kvcalc.catalog.config.families.traits import State, Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.base import replace
from kvcalc.specs.model import LayerGroup, Mixer, Mlp, MoeMlp, Recurrent, Tensor


def read_groups(keys: Keys, traits: Traits, hidden: int) -> tuple[LayerGroup, ...]:
    """Equal layers together, in the order in which each kind first comes."""
    where: dict[Layer, list[int]] = {}
    for index, layer in enumerate(read_plan(keys, traits)):
        where.setdefault(layer, []).append(index)
    return tuple(layer_group(keys, traits, hidden, layer, indices) for layer, indices in where.items())


Parts = tuple[Mlp | None, list[Mixer], list[Tensor]]  # of a layer


def view(keys: Keys, traits: Traits, said: Mapping[str, str]) -> Keys:
    """The keys with some of them under other names: num_hidden_layers = "decoder_layers"."""
    return keys.over({name: size(keys, traits, value) or None for name, value in said.items()})


def layer_group(keys: Keys, traits: Traits, hidden: int, layer: Layer, indices: list[int]) -> LayerGroup:
    """Layers of one kind."""
    keys = keys.over(dict(layer.says))
    scope = {"hidden": hidden}
    mixers, tensors = _mixers(keys, traits, layer, hidden, scope)
    mlp, found = _mlp(keys, traits, layer, hidden, scope)
    tensors += found
    if traits.twice:
        mlp, mixers, tensors = _twice(keys, traits, layer, hidden, (mlp, mixers, tensors))
    tensors += [t for name in traits.norms for t in _layer_norm(keys, traits, name, hidden, layer)]
    tensors += extra_tensors(keys, traits, layer.tags, scope)
    return LayerGroup(
        layers=tuple(indices), mixers=tuple(mixers), mlp=mlp, tensors=tuple(tensors), prefix=traits.layers
    )


def _mixers(
    keys: Keys, traits: Traits, layer: Layer, hidden: int, scope: dict[str, int]
) -> tuple[list[Mixer], list[Tensor]]:
    """What mixes tokens in a layer: attention, cross-attention, a recurrence, or several of them."""
    mixers: list[Mixer] = []
    tensors: list[Tensor] = []
    if layer.mixer == "linear":
        tensors += linear(f"{traits.attention}.linear_attn", hidden, hidden, "attention", "columns")
    elif layer.mixer != "none":
        mixer, tensors, sizes = _attention(keys, traits, layer, hidden)
        mixers.append(mixer)
        scope |= sizes
    if traits.cross:
        from kvcalc.catalog.config.families.cross import cross_attention

        across, found = cross_attention(keys, traits, traits.cross, hidden)
        mixers.append(across)
        tensors += found
    if traits.state is not None:
        mixers.append(_state(keys, traits, traits.state, scope))
    elif layer.recurrent:
        from kvcalc.catalog.config.recurrent import read_recurrent

        state, more = read_recurrent(keys, hidden, traits.recurrent)
        mixers.append(state)
        tensors += more
    return mixers, tensors


def _attention(keys: Keys, traits: Traits, layer: Layer, hidden: int) -> tuple[Mixer, list[Tensor], dict[str, int]]:
    if layer.mixer == "cross":
        from kvcalc.catalog.config.families.cross import cross_attention

        return *cross_attention(keys, traits, traits.cross_layer, hidden), {}
    if "compressed" in layer.mixer:
        from kvcalc.catalog.config.families.compressed import compressed

        return compressed(keys, traits, layer, hidden)
    if is_latent(keys, traits):
        from kvcalc.catalog.config.families.latent import latent

        return latent(keys, traits, layer, hidden)
    return attention(keys, traits, layer, hidden)


def is_latent(keys: Keys, traits: Traits) -> bool:
    """Whether keys and values are one latent vector. A rank alone, in a family without latents, stays unread."""
    whole = keys.given("qk_nope_head_dim") or keys.known_to_say("qk_nope_head_dim") or not traits.known
    return whole and keys.has("kv_lora_rank") and keys.raw("use_mla") is not False


def _mlp(
    keys: Keys, traits: Traits, layer: Layer, hidden: int, scope: dict[str, int]
) -> tuple[Mlp | None, list[Tensor]]:
    if layer.mlp == "none":
        return None, []
    if layer.mlp == "linear":
        return None, linear(f"{traits.mlp}.linear_mlp", hidden, hidden, "mlp", "columns")
    if layer.mlp == "dense":
        mlp, tensors = dense(keys, traits, hidden)
        scope["width"] = mlp.width
        return mlp, tensors
    experts, tensors, sizes = moe(keys, traits, hidden)
    scope |= sizes
    return experts, tensors


def _twice(keys: Keys, traits: Traits, layer: Layer, hidden: int, once: Parts) -> Parts:
    """LongCat's layer: two attentions and two dense MLPs, with one mixture of experts across both."""
    mlp, mixers, whole = once
    tensors = [tensor for tensor in whole if not tensor.name.startswith(f"{traits.attention}.")]
    width = 0
    for half in ("0", "1"):
        own = replace(traits, attention=f"{traits.attention}.{half}", mlp=f"mlps.{half}")
        tensors += _attention(keys, own, layer, hidden)[1]
        beside, found = dense(keys, own, hidden)
        tensors += found
        width += beside.width
    if isinstance(mlp, MoeMlp):
        mlp = replace(mlp, shared_width=width)
    return mlp, [*mixers, *mixers], tensors


def _state(keys: Keys, traits: Traits, state: State, scope: dict[str, int]) -> Recurrent:
    return Recurrent(
        family="short_conv",
        conv_channels=size(keys, traits, state.channels, scope),
        conv_kernel=size(keys, traits, state.kernel, scope),
        state_elements=size(keys, traits, state.elements, scope),
        state_dtype="bf16" if state.elements else None,
    )


def _layer_norm(keys: Keys, traits: Traits, name: str, hidden: int, layer: Layer) -> list[Tensor]:
    """A norm of the layer, where it has it; its condition may ask for `has_attention` and `has_mlp` too."""
    parts = {"has_attention": int(layer.mixer != "none"), "has_mlp": int(layer.mlp != "none")}
    return norm(name, traits.norm, hidden) if switch(keys, traits, traits.norms_when.get(name, True), parts) else []
