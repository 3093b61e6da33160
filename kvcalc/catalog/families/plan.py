"""Which layer is what: the kind of mixer and of MLP of every layer, from lists and patterns in the config."""

from dataclasses import dataclass

from kvcalc.catalog.families.traits import Traits, integer_of
from kvcalc.catalog.keys import Keys
from kvcalc.errors import KvcalcError

MOST_LAYERS = 4096
# How configs name the kinds of layer, and what kvcalc calls them.
KINDS = {
    "full_attention": "full", "attention": "full", "full": "full", "global": "full", "global_attention": "full",
    "sliding_attention": "sliding", "sliding": "sliding", "local": "sliding", "local_attention": "sliding",
    "chunked_attention": "chunked",
}  # fmt: skip
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts")


@dataclass(frozen=True)
class Layer:
    """What one layer is made of. Equal layers become one group."""

    mixer: str  # full | sliding | chunked | ...
    mlp: str  # dense | moe | none


def read_plan(keys: Keys, traits: Traits) -> list[Layer]:
    """One entry per layer of the decoder."""
    count = keys.need("num_hidden_layers", "n_layer", "n_layers", "num_layers", most=MOST_LAYERS)
    mixers = _mixers(keys, traits, count)
    mlps = _mlps(keys, count)
    return [Layer(mixer, mlp) for mixer, mlp in zip(mixers, mlps, strict=True)]


def _mixers(keys: Keys, traits: Traits, count: int) -> list[str]:
    listed = keys.texts("layer_types")
    if listed is not None:
        if len(listed) < count:
            raise KvcalcError(
                f"{keys.path('layer_types')} has {len(listed)} entries for {count} layers",
                hint="give one entry per layer",
            )
        return [_kind(keys, name) for name in listed[:count]]
    window = keys.integer("sliding_window", least=0)
    if traits.window == "none" or not window:
        return ["full"] * count
    if traits.window == "all":
        return ["sliding"] * count
    if traits.window == "late":
        start = keys.count("max_window_layers") if keys.flag("use_sliding_window") else count
        return ["full" if layer < start else "sliding" for layer in range(count)]
    return _pattern(keys, traits, count)


def _kind(keys: Keys, name: str) -> str:
    if name not in KINDS:
        raise KvcalcError(
            f"{keys.path('layer_types')} names a kind of layer that kvcalc does not know: {name!r}",
            hint="describe the model in a TOML card, or ask for the kind to be added",
        )
    return KINDS[name]


def _pattern(keys: Keys, traits: Traits, count: int) -> list[str]:
    pattern = traits.pattern
    if pattern is None:
        return ["full"] * count
    every = integer_of(keys, pattern.every)
    full = {layer for layer in range(count) if every and (layer - pattern.phase) % every == 0}
    if pattern.last:
        full.add(count - 1)
    other = _kind(keys, pattern.other)
    return ["full" if layer in full else other for layer in range(count)]


def _mlps(keys: Keys, count: int) -> list[str]:
    """Which layers are mixtures of experts."""
    experts = keys.integer(*EXPERTS, least=0) or 0
    listed = keys.texts("mlp_layer_types")
    if listed is not None and len(listed) >= count:
        return ["dense" if name == "dense" else "moe" for name in listed[:count]]
    if not experts:
        return ["dense"] * count
    dense = set(range(keys.count("first_k_dense_replace", "num_dense_layers", most=MOST_LAYERS)))
    dense.update(keys.integers("mlp_only_layers") or [])
    step = keys.integer("decoder_sparse_step", "interleave_moe_layer_step", default=1) or 1
    dense.update(layer for layer in range(count) if (layer + 1) % step)
    frequency = keys.raw("moe_layer_freq")
    if isinstance(frequency, list):
        flags = keys.integers("moe_layer_freq", most=1) or []
        dense = {layer for layer, sparse in enumerate(flags) if not sparse}
    elif frequency is not None:
        every = keys.integer("moe_layer_freq") or 1
        dense.update(layer for layer in range(count) if layer % every)
    period = keys.integer("expert_layer_period")
    if period is not None:
        offset = keys.count("expert_layer_offset")
        dense.update(layer for layer in range(count) if layer % period != offset)
    return ["dense" if layer in dense else "moe" for layer in range(count)]
