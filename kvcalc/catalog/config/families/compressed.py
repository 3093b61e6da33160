"""DeepSeek-V4's attention: a window of full vectors beside a compressed history, and low-rank queries and output."""

from kvcalc.catalog.config.families.attention import QUERY
from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.tensors import linear, norm
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError
from kvcalc.specs.model import Category, CompressedAttention, Indexer, Tensor

_RATES = {"compressed_sparse": ("compress_rate_csa", 4), "heavily_compressed": ("compress_rate_hca", 128)}
_NAMES = {"compressed_sparse": "compressed_sparse_attention", "heavily_compressed": "heavily_compressed_attention"}
SPARSE = 4  # the ratio whose compressor overlaps its windows and has an indexer


def _ratio(keys: Keys, kind: str) -> int:
    if kind not in _RATES:
        return 0 if kind == "compressed_window" else int(kind.removeprefix("compressed_"))
    rates = keys.child("compress_rates")
    name, default = _RATES[kind]
    said = rates.integer(_NAMES[kind]) if rates is not None else keys.integer(name)
    return said or default


def compressed(
    keys: Keys, traits: Traits, layer: Layer, hidden: int
) -> tuple[CompressedAttention, list[Tensor], dict[str, int]]:
    """One layer's attention, its tensors, and the sizes that its extra tensors are made of.

    The compressor keeps keys and gates of the tokens that are not compressed yet, in fp32: 2 × width × ratio, both
    doubled where its windows overlap. The indexer has a smaller compressor of its own.
    """
    heads, dim = keys.need(*QUERY), keys.need("head_dim")
    keys.ignore("qk_nope_head_dim", "num_key_value_heads")  # the rest of head_dim; one vector serves all heads
    ratio = _ratio(keys, layer.mixer)
    sparse = ratio == SPARSE or layer.mixer == "compressed_sparse"
    overlap = 2 if sparse else 1
    indexer, state = None, 2 * overlap * dim * overlap * ratio
    if sparse:
        indexer = Indexer(
            heads=keys.need("index_n_heads"), head_dim=keys.need("index_head_dim"), top_k=keys.need("index_topk")
        )
        state += 2 * overlap * indexer.head_dim * overlap * ratio
    mixer = CompressedAttention(
        query_heads=heads,
        head_dim=dim,
        rope_head_dim=keys.count("qk_rope_head_dim"),
        window=keys.need("sliding_window"),
        ratio=ratio,
        state_elements=state,
        indexer=indexer,
    )
    found = _tensors(keys, traits.attention, hidden, mixer)
    return mixer, found, {"heads": heads, "head_dim": dim}


def _tensors(keys: Keys, name: str, hidden: int, mixer: CompressedAttention) -> list[Tensor]:
    heads, dim, ratio = mixer.query_heads, mixer.head_dim, mixer.ratio
    overlap = 1 if mixer.indexer is None else 2
    rank = keys.need("q_lora_rank")
    groups = keys.need("o_groups")
    if heads * dim % groups:
        raise KvcalcError(
            f"{heads} heads of {dim} elements do not divide into {groups} groups of outputs",
            hint=f"correct {keys.path('o_groups')}",
        )
    outputs = groups * keys.need("o_lora_rank")
    found = linear(f"{name}.wq_a", rank, hidden, "attention", "whole")
    found += norm(f"{name}.q_norm", "weight", rank)
    found += linear(f"{name}.wq_b", heads * dim, rank, "attention", "columns")
    found += linear(f"{name}.wkv", dim, hidden, "attention", "whole")
    found += norm(f"{name}.kv_norm", "weight", dim)
    found += linear(f"{name}.wo_a", outputs, heads * dim // groups, "attention", "columns")
    found += linear(f"{name}.wo_b", hidden, outputs, "attention", "rows")
    if ratio:
        found += _compressor(f"{name}.compressor", dim, overlap, ratio, hidden, "compressor")
    if mixer.indexer is not None:
        indexer = mixer.indexer
        found += _compressor(f"{name}.indexer.compressor", indexer.head_dim, overlap, ratio, hidden, "indexer")
        found += linear(f"{name}.indexer.wq_b", indexer.heads * indexer.head_dim, rank, "indexer", "whole")
        found += linear(f"{name}.indexer.weights_proj", indexer.heads, hidden, "indexer", "whole")
    return found


def _compressor(name: str, dim: int, overlap: int, ratio: int, hidden: int, category: Category) -> list[Tensor]:
    width = overlap * dim
    found = [Tensor(name=f"{name}.ape", shape=(ratio, width), category=category)]
    found += linear(f"{name}.wkv", width, hidden, category, "whole")
    found += linear(f"{name}.wgate", width, hidden, category, "whole")
    return found + norm(f"{name}.norm", "weight", dim, category=category)
