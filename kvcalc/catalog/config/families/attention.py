"""Softmax attention with keys and values of its own: heads, windows, biases, norms of queries and keys, gates."""

from dataclasses import dataclass

from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.sizes import size, switch
from kvcalc.catalog.config.families.tensors import linear, norm
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Attention, Indexer, Split, Tensor

QUERY = ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads", "attention_heads")
KV = (
    "num_key_value_heads", "num_kv_heads", "n_head_kv", "num_attention_groups", "num_query_groups",
    "multi_query_group_num", "n_kv_heads", "kv_n_heads",
)  # fmt: skip
DIM = ("head_dim", "attention_head_dim", "kv_channels", "hidden_size_per_head", "d_kv", "dim_head")


@dataclass(frozen=True)
class Heads:
    """The geometry of one layer's attention."""

    query: int
    kv: int
    dim: int
    v_dim: int

    def scope(self) -> dict[str, int]:
        """Names that extra tensors may use in their shapes."""
        return {
            "heads": self.query,
            "kv_heads": self.kv,
            "head_dim": self.dim,
            "v_head_dim": self.v_dim,
            "q_width": self.query * self.dim,
            "k_width": self.kv * self.dim,
            "o_width": self.query * self.v_dim,
        }


def read_heads(keys: Keys, width: int) -> Heads:
    """Head counts and widths as the config says them, or as they follow from the width that attention reads."""
    query = keys.need(*QUERY)
    kv = _kv_heads(keys) or query
    dim = keys.integer(*DIM)
    if dim is None:
        if width < query:
            raise KvcalcError(f"{query} heads for {width} hidden elements", hint=f"add {keys.path('head_dim')}")
        dim = width // query
    if query % kv:
        raise KvcalcError(
            f"{query} query heads do not divide into {kv} key-value heads",
            hint=f"correct {keys.path('num_key_value_heads')}",
        )
    return Heads(query=query, kv=kv, dim=dim, v_dim=keys.integer("v_head_dim") or dim)


def _kv_heads(keys: Keys) -> int | None:
    """None: as many as query heads. Falcon and GPT-BigCode say `multi_query`, ChatGLM `multi_query_attention`."""
    if keys.flag("multi_query") and not keys.flag("new_decoder_architecture"):
        keys.ignore(*KV)
        return 1
    if keys.raw("multi_query_attention") is False:
        keys.ignore(*KV)
        return None
    return keys.integer(*KV)


def attention(keys: Keys, traits: Traits, layer: Layer, hidden: int) -> tuple[Attention, list[Tensor], dict[str, int]]:
    """One layer's attention, its tensors, and the sizes that its extra tensors are made of."""
    heads = read_heads(keys, size(keys, traits, traits.query_input, {"hidden": hidden}))
    window = None
    if layer.mixer == "sliding":
        window = keys.need(*traits.window_keys)
    elif layer.mixer == "chunked":
        window = keys.need("attention_chunk_size")
    mixer = Attention(
        query_heads=heads.query,
        kv_heads=heads.kv,
        head_dim=heads.dim,
        v_head_dim=heads.v_dim,
        window=window,
        chunked=layer.mixer == "chunked",
        owns_cache=layer.owns_cache,
        indexer=_block_indexer(keys, layer) if layer.mixer == "indexed" else None,
    )
    tensors = [] if traits.attention_outside else attention_tensors(keys, traits, layer, heads, hidden)
    scope = heads.scope()
    if mixer.indexer is not None:
        scope |= {"index_heads": mixer.indexer.heads, "index_dim": mixer.indexer.head_dim}
    return mixer, tensors, scope


def _block_indexer(keys: Keys, layer: Layer) -> Indexer:
    """Block-sparse attention over full keys and values (MiniMax-M3, Qwen's): one more key per token."""
    blocks = keys.integer("sparse_topk_blocks", "index_topk_blocks")
    block = keys.integer("sparse_block_size", "index_block_size")
    top_k = blocks * block if blocks and block else keys.need("index_topk", "indexer_budget")
    return Indexer(
        heads=keys.integer("sparse_num_index_heads", "index_n_heads", "indexer_n_heads") or 1,
        head_dim=keys.need("sparse_index_dim", "index_head_dim", "indexer_head_dim")
        * (keys.integer("indexer_kv_heads") or 1),
        top_k=top_k,
        owns_cache=layer.owns_index,
    )


def attention_tensors(
    keys: Keys, traits: Traits, layer: Layer, heads: Heads, hidden: int, module: str = ""
) -> list[Tensor]:
    """Projections of queries, keys, values and output; their norms; a gate."""
    name = module or traits.attention
    bias = switch(keys, traits, traits.qkv_bias)
    inputs = size(keys, traits, traits.query_input, {"hidden": hidden})
    queries, keys_width, values = heads.query * heads.dim, heads.kv * heads.dim, heads.kv * heads.v_dim
    if traits.gate == "q" and switch(keys, traits, traits.gate_when):
        queries *= 2
    if traits.qkv:
        found = _fused(f"{name}.{traits.qkv}", heads, inputs, bias)
    else:
        found = _queries(keys, f"{name}.{traits.q}", queries, inputs, bias)
        if _has_keys(keys, traits, layer):
            k_bias = bias if traits.k_bias is None else switch(keys, traits, traits.k_bias)
            found += linear(f"{name}.{traits.k}", keys_width, inputs, "attention", "kv", k_bias)
            if layer.mixer != "full" or not switch(keys, traits, traits.value_is_key):
                found += linear(f"{name}.{traits.v}", values, inputs, "attention", "kv", bias)
    output = heads.query * heads.v_dim
    found += linear(f"{name}.{traits.o}", hidden, output, "attention", "rows", switch(keys, traits, traits.o_bias))
    if traits.gate in ("full", "head") and switch(keys, traits, traits.gate_when):
        width = output if traits.gate == "full" else heads.query
        found += linear(f"{name}.{traits.gate_name}", width, hidden, "attention", "columns")
    return found + _qk_norms(keys, traits, layer, heads, name)


def _queries(keys: Keys, name: str, outputs: int, inputs: int, bias: bool) -> list[Tensor]:
    """The projection of queries; through a width that all heads share, where the config says one (Step-3)."""
    shared = keys.integer("share_q_dim")
    if shared is None:
        return linear(name, outputs, inputs, "attention", "columns", bias)
    found = linear(name, shared, inputs, "attention", "whole", bias)
    found += norm(f"{name.rpartition('.')[0]}.inter_norm", "weight", shared, category="attention")
    return found + linear(f"{name.rpartition('.')[0]}.wq", outputs, shared, "attention", "columns")


def _has_keys(keys: Keys, traits: Traits, layer: Layer) -> bool:
    """Whether a layer has projections of keys and values: some leave them in where it reads another's cache."""
    return layer.owns_cache or (traits.shared_kv_tensors and not keys.flag("use_cla"))


def _fused(name: str, heads: Heads, inputs: int, bias: bool) -> list[Tensor]:
    """One matrix in the checkpoint; two here where keys and values divide otherwise than queries."""
    queries, rest = heads.query * heads.dim, heads.kv * (heads.dim + heads.v_dim)
    if heads.kv == heads.query:
        return linear(name, queries + rest, inputs, "attention", "columns", bias)
    found = linear(name, queries, inputs, "attention", "columns", bias)
    return found + linear(name, rest, inputs, "attention", "kv", bias)


def _qk_norms(keys: Keys, traits: Traits, layer: Layer, heads: Heads, name: str) -> list[Tensor]:
    if (
        not traits.qk_norm
        or traits.qk_norm_on not in ("", layer.mixer)
        or not switch(keys, traits, traits.qk_norm_when)
    ):
        return []
    kind = traits.qk_norm_kind or traits.norm
    shapes: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
        "head": ((heads.dim,), (heads.dim,)),
        "full": ((heads.query * heads.dim,), (heads.kv * heads.dim,)),
        "heads": ((heads.query, heads.dim), (heads.kv, heads.dim)),
    }
    q_shape, k_shape = shapes[traits.qk_norm]
    each = traits.qk_norm != "head"
    found = norm(f"{name}.{traits.q_norm}", kind, *q_shape, split="columns" if each else "whole", category="attention")
    if _has_keys(keys, traits, layer):
        split: Split = "kv" if each else "whole"
        found += norm(f"{name}.{traits.k_norm}", kind, *k_shape, split=split, category="attention")
    return found
