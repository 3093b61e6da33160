"""Multi-head latent attention: keys and values compressed to one vector, with or without a sparse indexer."""

from kvcalc.catalog.config.families.attention import QUERY
from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.sizes import size, switch
from kvcalc.catalog.config.families.tensors import linear, norm
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.specs.model import Indexer, LatentAttention, Tensor


def latent(
    keys: Keys, traits: Traits, layer: Layer, hidden: int
) -> tuple[LatentAttention, list[Tensor], dict[str, int]]:
    """One layer's latent attention, its tensors, and the sizes that its extra tensors are made of."""
    query_rank = keys.integer("q_lora_rank", least=0) or None
    indexer = read_indexer(keys, layer) if layer.mixer == "indexed" else None
    mixer = LatentAttention(
        query_heads=keys.need(*QUERY),
        kv_lora_rank=keys.need("kv_lora_rank"),
        rope_head_dim=keys.count("qk_rope_head_dim"),
        nope_head_dim=keys.need("qk_nope_head_dim"),
        v_head_dim=keys.integer("v_head_dim") or hidden // keys.need(*QUERY),
        q_lora_rank=query_rank,
        window=keys.need(*traits.window_keys) if layer.mixer == "sliding" else None,
        owns_cache=layer.owns_cache,
        indexer=indexer,
    )
    width = mixer.query_heads * (mixer.nope_head_dim + mixer.rope_head_dim)
    scope = {
        "heads": mixer.query_heads,
        "q_lora_rank": query_rank or hidden,
        "kv_lora_rank": mixer.kv_lora_rank,
        "rope_dim": mixer.rope_head_dim,
        "q_width": width,
        "o_width": mixer.query_heads * mixer.v_head_dim,
    }
    found = _projections(keys, traits, mixer, hidden, width)
    if indexer is not None and layer.owns_index:
        found += indexer_tensors(f"{traits.attention}.indexer", indexer, query_rank or hidden, hidden)
        scope |= {"index_heads": indexer.heads, "index_dim": indexer.head_dim}
    return mixer, found, scope


def _projections(keys: Keys, traits: Traits, mixer: LatentAttention, hidden: int, width: int) -> list[Tensor]:
    name, bias = traits.attention, switch(keys, traits, traits.qkv_bias)
    rank, outputs = mixer.kv_lora_rank, mixer.query_heads * mixer.v_head_dim
    if mixer.q_lora_rank is None:
        found = linear(f"{name}.q_proj", width, hidden, "attention", "columns")
    else:
        found = linear(f"{name}.q_a_proj", mixer.q_lora_rank, hidden, "attention", "whole", bias)
        found += norm(f"{name}.q_a_layernorm", "weight", mixer.q_lora_rank, category="attention")
        inputs = size(keys, traits, traits.q_b_inputs, {"q_lora_rank": mixer.q_lora_rank})
        found += linear(f"{name}.{traits.q_b}", width + outputs * (traits.gate == "q"), inputs, "attention", "columns")
    found += linear(f"{name}.kv_a_proj_with_mqa", rank + mixer.rope_head_dim, hidden, "attention", "whole", bias)
    found += norm(f"{name}.kv_a_layernorm", "weight", rank, category="attention")
    both = mixer.query_heads * (mixer.nope_head_dim + mixer.v_head_dim)
    found += linear(f"{name}.kv_b_proj", both, rank, "attention", "columns")
    found += linear(f"{name}.o_proj", hidden, outputs, "attention", "rows", switch(keys, traits, traits.o_bias))
    if traits.gate in ("full", "head") and switch(keys, traits, traits.gate_when):
        gate = outputs if traits.gate == "full" else mixer.query_heads
        found += linear(f"{name}.{traits.gate_name}", gate, hidden, "attention", "columns")
    return found


def read_indexer(keys: Keys, layer: Layer) -> Indexer:
    """DeepSeek's sparse attention: heads that score, one key that is cached, how many tokens are then read."""
    return Indexer(
        heads=keys.need("index_n_heads"),
        head_dim=keys.need("index_head_dim"),
        top_k=keys.need("index_topk"),
        owns_cache=layer.owns_index,
    )


def indexer_tensors(name: str, indexer: Indexer, query_inputs: int, hidden: int) -> list[Tensor]:
    """Scoring queries, the cached key with its norm, and the weights of the heads: whole on every rank."""
    found = linear(f"{name}.wq_b", indexer.heads * indexer.head_dim, query_inputs, "indexer", "whole")
    found += linear(f"{name}.wk", indexer.head_dim, hidden, "indexer", "whole")
    found += norm(f"{name}.k_norm", "bias", indexer.head_dim, category="indexer")
    return found + linear(f"{name}.weights_proj", indexer.heads, hidden, "indexer", "whole")
