"""Softmax attention with keys and values of its own: heads, windows, biases, norms of queries and keys, gates."""

from dataclasses import dataclass

from kvcalc.catalog.families.plan import Layer
from kvcalc.catalog.families.tensors import linear, norm
from kvcalc.catalog.families.traits import Traits, switch
from kvcalc.catalog.keys import Keys
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Attention, Tensor


@dataclass(frozen=True)
class Heads:
    """The geometry of one layer's attention."""

    query: int
    kv: int
    dim: int
    v_dim: int


def read_heads(keys: Keys, hidden: int) -> Heads:
    """Head counts and widths as the config says them, or as they follow from the hidden size."""
    query = keys.need("num_attention_heads", "n_head", "n_heads", "num_heads")
    kv = keys.integer("num_key_value_heads", "num_kv_heads", "n_head_kv") or query
    dim = keys.integer("head_dim", "kv_channels", "attention_head_dim")
    if dim is None:
        if hidden % query:
            raise KvcalcError(
                f"{hidden} hidden elements do not divide into {query} heads",
                hint=f"add {keys.path('head_dim')} to the config",
            )
        dim = hidden // query
    if query % kv:
        raise KvcalcError(
            f"{query} query heads do not divide into {kv} key-value heads",
            hint=f"correct {keys.path('num_key_value_heads')}",
        )
    return Heads(query=query, kv=kv, dim=dim, v_dim=keys.integer("v_head_dim") or dim)


def attention(keys: Keys, traits: Traits, layer: Layer, hidden: int) -> tuple[Attention, list[Tensor]]:
    """One layer's attention and its tensors."""
    heads = read_heads(keys, hidden)
    window = None
    if layer.mixer == "sliding":
        window = keys.need("sliding_window")
    elif layer.mixer == "chunked":
        window = keys.need("attention_chunk_size")
    mixer = Attention(
        query_heads=heads.query,
        kv_heads=heads.kv,
        head_dim=heads.dim,
        v_head_dim=heads.v_dim,
        window=window,
        chunked=layer.mixer == "chunked",
    )
    return mixer, attention_tensors(keys, traits, heads, hidden)


def attention_tensors(keys: Keys, traits: Traits, heads: Heads, hidden: int) -> list[Tensor]:
    """Projections of queries, keys, values and output; their norms; a gate."""
    name = traits.attention
    bias = switch(keys, traits.qkv_bias)
    queries, keys_width, values = heads.query * heads.dim, heads.kv * heads.dim, heads.kv * heads.v_dim
    if traits.gate == "q":
        queries *= 2
    if traits.qkv:
        found = _fused(f"{name}.{traits.qkv}", heads, hidden, bias)
    else:
        found = linear(f"{name}.{traits.q}", queries, hidden, "attention", "columns", bias)
        found += linear(f"{name}.{traits.k}", keys_width, hidden, "attention", "kv", bias)
        found += linear(f"{name}.{traits.v}", values, hidden, "attention", "kv", bias)
    output = heads.query * heads.v_dim
    found += linear(f"{name}.{traits.o}", hidden, output, "attention", "rows", switch(keys, traits.o_bias))
    if traits.gate in ("full", "head"):
        width = output if traits.gate == "full" else heads.query
        found += linear(f"{name}.{traits.gate_name}", width, hidden, "attention", "columns")
    return found + _qk_norms(keys, traits, heads)


def _fused(name: str, heads: Heads, hidden: int, bias: bool) -> list[Tensor]:
    """One matrix in the checkpoint; two here where keys and values divide otherwise than queries."""
    queries, rest = heads.query * heads.dim, heads.kv * (heads.dim + heads.v_dim)
    if heads.kv == heads.query:
        return linear(name, queries + rest, hidden, "attention", "columns", bias)
    found = linear(name, queries, hidden, "attention", "columns", bias)
    return found + linear(name, rest, hidden, "attention", "kv", bias)


def _qk_norms(keys: Keys, traits: Traits, heads: Heads) -> list[Tensor]:
    if not traits.qk_norm or not switch(keys, traits.qk_norm_when):
        return []
    names = f"{traits.attention}.{traits.q_norm}", f"{traits.attention}.{traits.k_norm}"
    if traits.qk_norm == "head":
        return [t for name in names for t in norm(name, traits.norm, heads.dim)]
    if traits.qk_norm == "full":
        return norm(names[0], traits.norm, heads.query * heads.dim, split="columns") + norm(
            names[1], traits.norm, heads.kv * heads.dim, split="kv"
        )
    return norm(names[0], traits.norm, heads.query, heads.dim, split="columns") + norm(
        names[1], traits.norm, heads.kv, heads.dim, split="kv"
    )
