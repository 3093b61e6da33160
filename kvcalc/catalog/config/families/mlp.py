"""The MLP of a layer: dense, or a mixture of experts with shared ones."""

from kvcalc.catalog.config.families.sizes import size, switch
from kvcalc.catalog.config.families.sparse import EXPERTS, WIDTH
from kvcalc.catalog.config.families.tensors import linear, norm, stacked
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.base import replace
from kvcalc.specs.model import Category, DenseMlp, MoeMlp, Split, Tensor

EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", "expert_ffn_hidden_size", "moe_ffn_hidden_size")
TOP_K = (
    "num_experts_per_tok", "num_experts_per_token", "top_k_experts", "moe_topk", "moe_top_k", "moe_k", "top_k",
    "num_selected_experts", "moe_num_active_primary_experts",
)  # fmt: skip
SHARED_WIDTH = (
    "shared_expert_intermediate_size", "moe_shared_expert_intermediate_size", "shared_intermediate_size",
    "share_expert_dim", "shared_experts_intermediate_size",
)  # fmt: skip
MOST_WIDTH = 10**9
SHARED = ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts")


def dense(keys: Keys, traits: Traits, hidden: int) -> tuple[DenseMlp, list[Tensor]]:
    """A dense MLP and its tensors."""
    width = _width(keys, traits, hidden)
    gated = switch(keys, traits, traits.gated)
    return DenseMlp(width=width, gated=gated), projections(keys, traits, traits.mlp, width, hidden)


def _width(keys: Keys, traits: Traits, hidden: int) -> int:
    said = size(keys, traits, traits.width, {"hidden": hidden}) or keys.integer(*WIDTH) or traits.width_factor * hidden
    said = said or _from_factor(keys, hidden)
    width = (said or keys.need(*WIDTH)) // traits.width_divisor
    if keys.flag("block_auto_adjust_ff_dim"):  # LFM2: two thirds, times a factor, rounded up
        factor = keys.number("block_ffn_dim_multiplier", default=1.0) or 1.0
        multiple = keys.integer("block_multiple_of", default=256) or 1
        width = -(-int(factor * (2 * width // 3)) // multiple) * multiple
    if not 1 <= width <= MOST_WIDTH:
        raise keys.error(WIDTH, width, f"a width between 1 and {MOST_WIDTH}")
    return width


def _from_factor(keys: Keys, hidden: int) -> int:
    """A factor of the hidden size, rounded: xLSTM up, OpenELM to the nearest. Nought where the config has neither."""
    factor = keys.number("ffn_proj_factor")
    if factor is not None:
        multiple = keys.integer("ffn_round_up_to_multiple_of", default=64) or 1
        return -(-int(factor * hidden) // multiple) * multiple
    factor = None if isinstance(keys.raw("ffn_multipliers"), list) else keys.number("ffn_multipliers")
    if factor is None:
        return 0
    multiple = keys.integer("ffn_dim_divisor", default=256) or 1
    nearest = max(multiple, int(factor * hidden + multiple / 2) // multiple * multiple)
    return nearest + multiple if nearest < 0.9 * factor * hidden else nearest


def projections(
    keys: Keys, traits: Traits, name: str, width: int, hidden: int, category: Category = "mlp"
) -> list[Tensor]:
    """Gate, up and down projections (up and down where it is not gated)."""
    bias = switch(keys, traits, traits.mlp_bias)
    if not switch(keys, traits, traits.gated):
        found = linear(f"{name}.{traits.mlp_only or traits.mlp_up}", width, hidden, category, "columns", bias)
    elif traits.mlp_gate_up:
        found = linear(f"{name}.{traits.mlp_gate_up}", 2 * width, hidden, category, "columns", bias)
    else:
        found = linear(f"{name}.{traits.mlp_gate}", width, hidden, category, "columns", bias)
        found += linear(f"{name}.{traits.mlp_up}", width, hidden, category, "columns", bias)
    return found + linear(f"{name}.{traits.mlp_down}", hidden, width, category, "rows", bias)


def moe(keys: Keys, traits: Traits, hidden: int) -> tuple[MoeMlp, list[Tensor], dict[str, int]]:
    """A mixture of experts, its tensors, and the sizes that its extra tensors are made of."""
    experts = keys.need(*EXPERTS)
    width = keys.integer(*traits.expert_width, *EXPERT_WIDTH) or keys.need(*WIDTH)
    scope = {"hidden": hidden, "experts": experts, "expert_width": width}
    shared = _shared_width(keys, traits, width, scope)
    name = traits.moe
    rows = size(keys, traits, traits.router_rows, scope)
    found = linear(f"{name}.{traits.router}", rows, hidden, "router", "whole", switch(keys, traits, traits.router_bias))
    found += _latent(keys, name, hidden)
    found += _experts(keys, traits, experts, width, size(keys, traits, traits.expert_input, scope))
    if shared:
        module = f"{name}.{traits.shared}" if traits.shared_inside else traits.shared
        found += projections(keys, traits, module, shared, hidden, "shared_experts")
        if traits.shared_gate:
            found += linear(f"{name}.{traits.shared_gate}", 1, hidden, "shared_experts", "whole")
    if traits.beside:
        beside, more = dense(keys, traits, hidden)
        shared, found = beside.width, found + more
    spec = MoeMlp(
        experts=experts,
        top_k=min(experts, keys.integer(*TOP_K) or experts),
        expert_width=width,
        shared_width=shared,
        gated=switch(keys, traits, traits.gated),
    )
    return spec, found, scope


def _latent(keys: Keys, name: str, hidden: int) -> list[Tensor]:
    """Experts that work in a narrower space (Kimi-K3): what leads into it and out of it, whole on every rank."""
    width = keys.integer("routed_expert_hidden_size")
    if width is None:
        return []
    found = linear(f"{name}.routed_expert_down_proj", width, hidden, "experts", "whole")
    found += linear(f"{name}.routed_expert_up_proj", hidden, width, "experts", "whole")
    return found + (norm(f"{name}.routed_expert_norm", "weight", width) if keys.flag("latent_moe_use_norm") else [])


def _shared_width(keys: Keys, traits: Traits, width: int, scope: dict[str, int]) -> int:
    """All shared experts together."""
    if traits.shared_width is not None:
        return size(keys, traits, traits.shared_width, scope)
    said = keys.integer(*SHARED_WIDTH, least=0)
    return width * keys.count(*SHARED) if said is None else said


def _experts(keys: Keys, traits: Traits, experts: int, width: int, inputs: int) -> list[Tensor]:
    """The routed experts: one tensor of each kind, as many copies as experts."""
    name = f"{traits.moe}.{traits.experts}"
    columns: Split = "columns"
    rows: Split = "rows"
    ups: tuple[tuple[str, int], ...]
    if traits.expert_gate_up:
        ups = ((traits.expert_gate_up, 2 * width),)
    elif switch(keys, traits, traits.gated):
        ups = ((traits.expert_gate or traits.mlp_gate, width), (traits.expert_up or traits.mlp_up, width))
    else:
        ups = ((traits.expert_up or traits.mlp_up, width),)
    each = [(up, outputs, inputs, columns) for up, outputs in ups]
    each.append((traits.expert_down or traits.mlp_down, inputs, width, rows))
    bias = switch(keys, traits, traits.expert_bias)
    make = linear if "." in traits.experts else stacked
    return [
        replace(tensor, copies=experts)
        for up, out, into, split in each
        for tensor in make(f"{name}.{up}", out, into, "experts", split, bias)
    ]
