"""Which layers are mixtures of experts, which are dense, which have no MLP."""

from collections.abc import Sequence

from kvcalc.catalog.config.families.sizes import size
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError

EXPERTS = (
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_moe_experts",
    "num_expert",
    "moe_num_primary_experts",
)
WIDTH = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff", "decoder_ffn_dim", "block_ff_dim")
FIRST_DENSE = ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index", "n_dense_layers", "dense_mlp_idx")
_NAMES = {"dense": "dense", "sparse": "moe", "moe": "moe", "hash_moe": "hash_moe"}


def mlp_kinds(keys: Keys, traits: Traits, kinds: Sequence[str]) -> list[str]:
    """dense, moe, hash_moe or none for each layer."""
    count = len(kinds)
    if traits.bare:
        return [{"mlp": "dense", "moe": "moe"}.get(kind, "none") for kind in kinds]
    if keys.raw("enable_moe_block") is False or keys.raw("is_moe") is False:
        return ["dense"] * count
    listed = keys.texts("mlp_layer_types")
    if listed is not None and len(listed) >= count:
        return [_name(keys, name) for name in listed[:count]]
    hashed = keys.count("num_hash_layers", most=10**4)
    if traits.always_moe:
        return ["hash_moe" if layer < hashed else "moe" for layer in range(count)]
    if (keys.integer(*EXPERTS, least=0) or 0) <= 1:
        return ["dense"] * count
    dense = _dense(keys, traits, count)
    return ["dense" if layer in dense else "hash_moe" if layer < hashed else "moe" for layer in range(count)]


def _name(keys: Keys, name: str) -> str:
    if name not in _NAMES:
        raise KvcalcError(
            f"{keys.path('mlp_layer_types')} names a kind of MLP that kvcalc does not know: {name[:40]!r}",
            hint=f"known: {', '.join(_NAMES)}",
        )
    return _NAMES[name]


def _listed(keys: Keys) -> list[int] | None:
    """Layers with experts, as a list or as Step-3 writes it: "4,5,6"."""
    said = keys.raw("moe_layers_enum")
    if isinstance(said, str) and all(part.strip().isdecimal() for part in said.split(",")):
        return [int(part[:9]) for part in said.split(",")]
    return None if isinstance(said, str) else keys.integers("moe_layers", "moe_layers_enum")


def _dense(keys: Keys, traits: Traits, count: int) -> set[int]:
    """Layers without experts, by whichever of the ways a config says it."""
    layers = range(count)
    moe = _listed(keys)
    if moe is not None:
        return set(layers) - set(moe)
    frequency = keys.raw("moe_layer_freq")
    if isinstance(frequency, list | tuple):
        flags = keys.integers("moe_layer_freq", most=1) or []
        return {layer for layer, sparse in enumerate(flags) if not sparse}
    first = keys.integer(*FIRST_DENSE, least=0)
    dense = set(range(min(count, size(keys, traits, traits.moe_first) if first is None else first)))
    dense.update(keys.integers("mlp_only_layers") or [])
    step = keys.integer("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1) or 1
    if step > 1 and keys.value("decoder_sparse_step") and not traits.width and not keys.has(*WIDTH):
        keys.doubt("decoder_sparse_step", "no key gives dense layers a width: every layer is taken to have experts")
        step = 1
    dense.update(layer for layer in layers if (layer + 1) % step)
    every = keys.integer("moe_layer_freq", default=1) or 1
    dense.update(layer for layer in layers if layer % every)
    period = keys.integer("expert_layer_period", default=1) or 1
    offset = keys.count("expert_layer_offset")
    dense.update(layer for layer in layers if layer % period != offset % period)
    return dense
