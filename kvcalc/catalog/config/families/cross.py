"""Cross-attention: a decoder's layers that read what an encoder or a vision tower put out."""

from kvcalc.catalog.config.families.attention import attention_tensors, read_heads
from kvcalc.catalog.config.families.plan_layer import Layer
from kvcalc.catalog.config.families.sizes import size
from kvcalc.catalog.config.families.traits import Traits
from kvcalc.catalog.config.keys import Keys
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.model import CrossAttention, Tensor


def cross_attention(keys: Keys, traits: Traits, module: str, hidden: int) -> tuple[CrossAttention, list[Tensor]]:
    """One layer's cross-attention and its tensors. Keys and values are of the source, as wide as `cross_input`."""
    heads = read_heads(keys, hidden)
    tokens = size(keys, traits, traits.source)
    if not tokens:
        raise KvcalcError(
            "the config does not say how many positions its cross-attention reads",
            hint=f"add {traits.source} to the config",
        )
    mixer = CrossAttention(query_heads=heads.query, kv_heads=heads.kv, head_dim=heads.dim, source_tokens=tokens)
    source = size(keys, traits, traits.cross_input, {"hidden": hidden})
    found = attention_tensors(keys, traits, Layer(mixer="cross", mlp="none"), heads, hidden, module)
    return mixer, [_fed(tensor, source) if _reads_source(tensor, traits, module) else tensor for tensor in found]


def _reads_source(tensor: Tensor, traits: Traits, module: str) -> bool:
    return tensor.name in (f"{module}.{traits.k}.weight", f"{module}.{traits.v}.weight")


def _fed(tensor: Tensor, inputs: int) -> Tensor:
    return replace(tensor, shape=(tensor.shape[0], inputs))
