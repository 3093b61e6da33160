"""Config keys → recurrent mixers and their tensors; which kind it is, the keys say."""

from collections.abc import Callable
from functools import partial

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.config.recurrent.delta import gated_delta_net, kda
from kvcalc.catalog.config.recurrent.linear import lightning, mlstm, rg_lru, short_conv
from kvcalc.catalog.config.recurrent.mamba import STATE, is_mamba2, mamba1, mamba2, plamo2_mamba
from kvcalc.catalog.config.recurrent.parts import Mixed
from kvcalc.catalog.config.recurrent.rwkv import rwkv
from kvcalc.errors import KvcalcError

# Kinds, and the same kinds as other checkpoints lay out their matrices.
KINDS: dict[str, Callable[[Keys, int], Mixed]] = {
    "mamba1": mamba1,
    "mamba1_normed": partial(mamba1, inner_norms=True),  # Jamba
    "mamba2": mamba2,
    "plamo2_mamba": plamo2_mamba,
    "gated_delta_net": gated_delta_net,  # Qwen3.5
    "gated_delta_net_qkvz": partial(gated_delta_net, projections="qkvz"),  # Qwen3-Next
    "gated_delta_net_fused": partial(gated_delta_net, projections="fused"),
    "gated_delta_net_separate": partial(gated_delta_net, projections="separate"),  # OLMo-Hybrid
    "kda": kda,
    "kda_full_rank": partial(kda, low_rank=False),  # Ling-3
    "lightning": lightning,
    "short_conv": short_conv,
    "rg_lru": rg_lru,
    "mlstm": mlstm,
    "rwkv": rwkv,
}

# Keys that only one kind of recurrence has, in the order in which they decide.
SIGNS: dict[str, tuple[str, ...]] = {
    "kda_full_rank": ("kda_lower_bound", "kda_safe_gate"),
    "kda": ("linear_attn_config", "linear_num_heads"),
    "gated_delta_net": ("linear_num_value_heads", "linear_value_head_dim", "linear_conv_kernel_dim"),
    "short_conv": ("conv_L_cache",),
    "rg_lru": ("lru_width", "conv1d_width"),
    "mlstm": ("qk_dim_factor", "weight_mode"),
    "plamo2_mamba": ("hidden_size_per_head",),
    "mamba": STATE,
    "rwkv": ("attention_hidden_size", "decay_low_rank_dim", "head_size", "context_length"),
    "lightning": ("attn_type_list", "layer_group_size", "linear_attn_alpha_factor", "block_size"),
}


def kind_of(keys: Keys) -> str:
    """Which recurrence the keys describe: a name of KINDS.

    Raises KvcalcError where no key tells.
    """
    for kind, names in SIGNS.items():
        if any(keys.raw(name) is not None for name in names):
            return ("mamba2" if is_mamba2(keys) else "mamba1") if kind == "mamba" else kind
    raise KvcalcError(
        "the config has recurrent layers, but no key that says their kind",
        hint="kvcalc knows Mamba 1 and 2, gated delta nets, KDA, lightning attention, short convolutions, RG-LRU, "
        "RWKV and mLSTM by their keys; describe another kind in a TOML card with its state",
    )


def read_recurrent(keys: Keys, hidden: int, kind: str = "") -> Mixed:
    """The recurrent mixer of one layer and its tensors.

    Args:
        keys: of the text decoder, with its class's defaults.
        hidden: elements of the residual stream.
        kind: a name of KINDS; "": as the keys tell.

    Raises KvcalcError where a size is missing, or no key tells the kind.
    """
    return KINDS[kind or kind_of(keys)](keys, hidden)
