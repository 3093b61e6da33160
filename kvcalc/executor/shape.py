"""ModelSpec → the shape of a Llama-like decoder, or the reason why this executor does not run the model."""

from dataclasses import dataclass

from kvcalc.errors import KvcalcError
from kvcalc.specs.formats import PLAIN
from kvcalc.specs.model import Attention, DenseMlp, LayerGroup, ModelSpec

REQUIRED = {"self_attn.o_proj.weight", "mlp.down_proj.weight", "input_layernorm.weight",
            "post_attention_layernorm.weight"}  # fmt: skip
QKV = tuple(f"self_attn.{name}_proj" for name in "qkv")
GATE_UP = ("mlp.gate_proj", "mlp.up_proj")
FUSED = ("self_attn.qkv_proj", "mlp.gate_up_proj")  # as some checkpoints store them
QK_NORM = ("self_attn.q_norm.weight", "self_attn.k_norm.weight")
KNOWN = REQUIRED | set(QK_NORM) | {
    f"{module}.{part}" for module in (*QKV, *GATE_UP, *FUSED, "self_attn.o_proj", "mlp.down_proj")
    for part in ("weight", "bias")
}  # fmt: skip
OUTSIDE = {"model.embed_tokens.weight", "model.norm.weight", "lm_head.weight"}


@dataclass(frozen=True)
class Shape:
    """A decoder of equal layers: attention with grouped heads, a gated MLP, a norm before each."""

    hidden: int
    vocab: int
    query_heads: int
    kv_heads: int
    head_dim: int
    width: int  # of the MLP
    windows: tuple[int | None, ...]  # one a layer: tokens that it attends to; None: all
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False  # queries and keys are normalised head by head
    tied: bool = False

    @property
    def layers(self) -> int:
        return len(self.windows)

    @property
    def group(self) -> int:
        """Query heads of one KV head."""
        return self.query_heads // self.kv_heads

    @property
    def q_width(self) -> int:
        return self.query_heads * self.head_dim

    @property
    def kv_width(self) -> int:
        return self.kv_heads * self.head_dim


def shape_of(model: ModelSpec) -> Shape:
    """The decoder's dimensions.

    Raises:
        KvcalcError: the model has a part that this executor does not run.
    """
    windows: dict[int, int | None] = {}
    found: set[Shape] = set()
    for group in model.groups:
        attention = _attention(group, model.name)
        windows |= dict.fromkeys(group.layers, attention.window)
        found.add(_layer(group, attention, model))
    if len(found) != 1:
        raise _cannot(model.name, "layers of different sizes")
    if strange := {tensor.name for tensor in model.tensors} - OUTSIDE:
        raise _cannot(model.name, min(strange))
    if model.towers:
        raise _cannot(model.name, f"a {model.towers[0].name}")
    (one,) = found
    return Shape(**{**one.__dict__, "windows": tuple(windows[index] for index in sorted(windows))})


def _attention(group: LayerGroup, name: str) -> Attention:
    mixer = group.mixers[0] if len(group.mixers) == 1 else None
    if not isinstance(mixer, Attention):
        kinds = " and ".join(one.kind for one in group.mixers) or "no mixer"
        raise _cannot(name, f"layers with {kinds}")
    odd = mixer.chunked or not mixer.owns_cache or mixer.indexer or mixer.head_dim != mixer.v_head_dim
    if odd:
        raise _cannot(name, "attention that is chunked, sparse, shared between layers or of unequal head widths")
    return mixer


def _layer(group: LayerGroup, attention: Attention, model: ModelSpec) -> Shape:
    if not isinstance(group.mlp, DenseMlp) or not group.mlp.gated:
        raise _cannot(model.name, "experts" if group.mlp and group.mlp.kind == "moe" else "an MLP without a gate")
    tensors = {tensor.name: tensor for tensor in group.tensors}
    if strange := tensors.keys() - KNOWN:
        raise _cannot(model.name, min(strange))
    if model.parallel_residual or not tensors.keys() >= REQUIRED:
        raise _cannot(model.name, "norms that are not before the attention and before the MLP")
    if any(tensor.format.name not in PLAIN for tensor in group.tensors):
        raise KvcalcError(
            f"the executor does not run quantized weights ({model.name})", hint="give a model of bf16, fp16 or fp32"
        )
    normed = tuple(tensors[name].shape for name in QK_NORM if name in tensors)
    if normed and set(normed) != {(attention.head_dim,)}:
        raise _cannot(model.name, "a norm over all heads of queries or keys")
    return Shape(
        hidden=model.hidden,
        vocab=model.vocab,
        query_heads=attention.query_heads,
        kv_heads=attention.kv_heads,
        head_dim=attention.head_dim,
        width=group.mlp.width,
        windows=(),
        qkv_bias=bool(tensors.keys() & {"self_attn.q_proj.bias", "self_attn.qkv_proj.bias"}),
        o_bias="self_attn.o_proj.bias" in tensors,
        mlp_bias="mlp.down_proj.bias" in tensors,
        qk_norm=bool(normed),
        tied=model.tied_embeddings,
    )


def _cannot(name: str, what: str) -> KvcalcError:
    return KvcalcError(
        f"the executor runs Llama-shaped decoders; {name} has {what}",
        hint="size, kv and step answer for this model all the same",
    )
