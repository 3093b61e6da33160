"""The MLP of a layer: dense, or a mixture of experts with shared ones."""

from kvcalc.catalog.families.plan import EXPERTS
from kvcalc.catalog.families.tensors import linear
from kvcalc.catalog.families.traits import Traits, switch
from kvcalc.catalog.keys import Keys
from kvcalc.specs.model import Category, DenseMlp, MoeMlp, Split, Tensor

WIDTH = ("intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "d_ff")
TOP_K = ("num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "top_k")


def dense(keys: Keys, traits: Traits, hidden: int) -> tuple[DenseMlp, list[Tensor]]:
    """A dense MLP and its tensors."""
    width = keys.need(*traits.width, *WIDTH)
    return DenseMlp(width=width, gated=traits.gated), gated_mlp(keys, traits, traits.mlp, width, hidden, "mlp")


def gated_mlp(
    keys: Keys, traits: Traits, name: str, width: int, hidden: int, category: Category, copies: int = 1
) -> list[Tensor]:
    """Gate, up and down projections (up and down where it is not gated)."""
    bias = switch(keys, traits.mlp_bias)
    columns: Split = "columns"
    if traits.gated and traits.mlp_gate_up:
        found = linear(f"{name}.{traits.mlp_gate_up}", 2 * width, hidden, category, columns, bias, copies)
    else:
        ups = (traits.mlp_gate, traits.mlp_up) if traits.gated else (traits.mlp_up,)
        found = [t for up in ups for t in linear(f"{name}.{up}", width, hidden, category, columns, bias, copies)]
    return found + linear(f"{name}.{traits.mlp_down}", hidden, width, category, "rows", bias, copies)


def moe(keys: Keys, traits: Traits, hidden: int) -> tuple[MoeMlp, list[Tensor]]:
    """A mixture of experts: router, routed experts (one tensor of each kind, E copies), shared experts."""
    experts = keys.need(*EXPERTS)
    width = keys.integer("moe_intermediate_size", "expert_intermediate_size") or keys.need(*WIDTH)
    shared = keys.integer("shared_expert_intermediate_size", "moe_shared_expert_intermediate_size")
    if shared is None:
        shared = width * keys.count("n_shared_experts", "num_shared_experts")
    name = traits.mlp
    found = linear(f"{name}.gate", experts, hidden, "router", "whole")
    found += gated_mlp(keys, traits, f"{name}.experts.0", width, hidden, "experts", experts)
    if shared:
        found += gated_mlp(keys, traits, f"{name}.shared_experts", shared, hidden, "shared_experts")
    spec = MoeMlp(
        experts=experts, top_k=keys.need(*TOP_K), expert_width=width, shared_width=shared, gated=traits.gated
    )
    return spec, found
