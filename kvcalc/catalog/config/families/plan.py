"""Which layer is what: mixer, MLP, whose cache it reads, and what it says otherwise than the rest."""

from kvcalc.catalog.config.expression import names
from kvcalc.catalog.config.families.kinds import listed_length, read_kinds
from kvcalc.catalog.config.families.nas import read_blocks
from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.sharing import indexers, owners
from kvcalc.catalog.config.families.sizes import size
from kvcalc.catalog.config.families.sparse import mlp_kinds
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys

MOST_LAYERS = 4096
COUNT = (
    "num_hidden_layers",
    "num_transformer_layers",
    "num_blocks",
    "n_layer",
    "n_layers",
    "num_layers",
    "num_decoder_layers",
    "decoder_layers",
)


def read_plan(keys: Keys, traits: Traits) -> list[Layer]:
    """One entry for each layer of the decoder."""
    count = layer_count(keys, traits)
    blocks = read_blocks(keys, count)
    if blocks is not None:
        return blocks
    kinds = read_kinds(keys, traits, count)
    mlps = mlp_kinds(keys, traits, kinds)
    own = owners(keys, kinds)
    sparse = traits.indexed or any(kind in ("indexed", "compressed_sparse") for kind in kinds)
    index = indexers(keys, count) if sparse else [True] * count
    placed = any(name in ("first", "rest", "last") for extra in traits.extra for name in names(extra.on))
    plan = []
    for layer, kind in enumerate(kinds):
        recurrent = kind in ("recurrent", "hybrid", "hybrid_sliding") or (traits.hybrid and kind != "none")
        mixer = mixer_of(kind)
        if mixer == "full" and traits.indexed:
            mixer = "indexed"
        plan.append(
            Layer(
                mixer=mixer,
                mlp=mlps[layer],
                recurrent=recurrent,
                owns_cache=own[layer],
                owns_index=index[layer],
                place=_place(layer, count) if placed else "",
                says=tuple(sorted(_says(keys, traits, mixer, layer, count, own[layer]).items())),
            )
        )
    return plan


def _own(keys: Keys, layer: int) -> dict[str, object]:
    """What `per_layer_config` says of this layer; its names are numbers, with or without leading noughts."""
    each = keys.child("per_layer_config")
    if each is None:
        return {}
    parts = [each.child(name) for name in each.names() if name.isdecimal() and int(name[:9]) == layer]
    return {key: part.raw(key) for part in parts if part is not None for key in part.names()}


def _without_positions(keys: Keys, layer: int) -> bool:
    listed = keys.raw("no_rope_layers")
    if isinstance(listed, list):
        return len(listed) > layer and not listed[layer]
    every = keys.integer("no_rope_layer_interval")
    return every is not None and (layer + 1) % every == 0


def _place(layer: int, count: int) -> str:
    place = "first" if layer == 0 else "rest"
    return f"{place} last" if layer == count - 1 else place


def mixer_of(kind: str) -> str:
    """The attention of a kind of layer: none for layers that only recur or only have an MLP."""
    return _MIXERS.get(kind, kind)


_MIXERS = {"hybrid": "full", "hybrid_sliding": "sliding", "recurrent": "none", "mlp": "none", "moe": "none"}


def layer_count(keys: Keys, traits: Traits) -> int:
    """The decoder's layers: said, or as many as a list has entries, or as the class's own short list."""
    if keys.has(*COUNT):
        return keys.need(*COUNT, most=MOST_LAYERS)
    listed = listed_length(keys)
    if listed is None and traits.pattern is not None and traits.bare:
        listed = len(traits.pattern.cycle) or None
    return listed if listed and listed <= MOST_LAYERS else keys.need(*COUNT, most=MOST_LAYERS)


def _says(keys: Keys, traits: Traits, mixer: str, layer: int, count: int, owns: bool) -> dict[str, object]:
    """What this layer says otherwise: keys for its kind, lists with one entry per layer, `per_layer_config`."""
    said: dict[str, object] = {}
    if mixer == "sliding":
        for name in OF_WINDOWS:
            spelled = [f"swa_{name}", *([name.replace("num_", "num_swa_")] if name.startswith("num_") else [])]
            if keys.has(*spelled):
                said[name] = keys.raw(*spelled)
        other = keys.child("attention_other_setting")
        if other is not None:
            said.update({name: other.raw(name) for name in ("num_attention_heads", "num_attention_groups", "head_dim")
                         if other.has(name)})  # fmt: skip
    other_keys = {"full": traits.full_keys, "sliding": traits.sliding_keys}.get(mixer, {})
    said.update({name: size(keys, traits, value) or None for name, value in other_keys.items()})
    for name in traits.first_entries:
        if isinstance(keys.raw(name), list):  # the second entry stays at hand, as "name_1"
            said.update({name: keys.entry(name, 0), f"{name}_1": keys.entry(name, 1)})
    for name in PER_LAYER:
        for key in (f"{name}_per_layer", name):
            listed = keys.value(key) if keys.given(key) else keys.declares(key)
            if isinstance(listed, list) and len(listed) >= count:
                keys.ignore(key)
                said[name] = listed[layer]
    if keys.known_to_say("qk_nope_head_dim") and keys.has("kv_lora_rank") and _without_positions(keys, layer):
        said["qk_nope_head_dim"] = keys.need("qk_nope_head_dim") + keys.count("qk_rope_head_dim")
        said["qk_rope_head_dim"] = 0  # the whole head goes without positions
    if not owns and keys.flag("use_double_wide_mlp"):
        said["intermediate_size"] = 2 * keys.need("intermediate_size")
    said.update(_own(keys, layer))
    for name, entry in said.items():
        if entry is not None and not isinstance(entry, int | float | str):
            raise keys.error((name,), entry, "a number or a name")
    return said


# What layers with a window have otherwise: swa_head_dim (MiMo-V2, dots.3), num_swa_attention_heads (Baichuan-M1).
OF_WINDOWS = (
    "num_attention_heads", "num_key_value_heads", "head_dim", "v_head_dim", "kv_lora_rank", "q_lora_rank",
    "qk_nope_head_dim", "qk_rope_head_dim", "rope_theta", "attention_sink_bias",
)  # fmt: skip
PER_LAYER = (
    "num_attention_heads", "num_key_value_heads", "num_query_heads", "num_kv_heads", "head_dim", "intermediate_size",
    "ffn_multipliers", "num_experts", "moe_intermediate_size", "sliding_window", "moe_topk", "num_experts_per_tok",
    "num_shared_expert", "num_shared_experts", "n_shared_experts",
)  # fmt: skip
