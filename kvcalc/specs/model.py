"""ModelSpec: a model as groups of equal layers, each with its mixers, its MLP and its weight tensors.

Two ideas carry everything else. A *mixer* says what one layer keeps for each sequence (its cache or state);
`counting.cache` turns mixers into a CacheProfile. A *tensor* says its shape, how tensor parallelism divides it and
how it is stored; parameters, weight bytes, bytes per GPU and the matmuls of a step are all sums over tensors, so no
family needs a formula of its own.
"""

from typing import Annotated, Literal

from kvcalc.specs.base import Assumption, Count, Positive, Sized, Source
from kvcalc.specs.constraints import Tagged
from kvcalc.specs.formats import BF16, WeightFormat, matrix_bytes

Category = Literal[
    "embedding", "position", "attention", "indexer", "compressor", "recurrent", "mlp", "experts", "shared_experts",
    "router", "norm", "head", "vision", "audio", "other",
]  # fmt: skip

# How tensor parallelism divides a tensor of shape (outputs, inputs):
#   columns  outputs / tp          rows     inputs / tp
#   kv       outputs / min(tp, kv heads): replicated once tp > kv heads
#   vocab    outputs padded to a multiple of 64, then / tp
#   whole    a copy on every rank
Split = Literal["columns", "rows", "kv", "vocab", "whole"]


def bias_split(split: Split) -> Split:
    """How the bias of a matrix divides: after one whose inputs divide it is added once, whole.

    >>> bias_split("columns"), bias_split("rows")
    ('columns', 'whole')
    """
    return "whole" if split == "rows" else split


class Tensor(Sized):
    """One weight tensor (or `copies` equal ones, as the experts of a layer)."""

    name: str  # as in the checkpoint, without the layer prefix: "self_attn.q_proj.weight"
    shape: tuple[Positive, ...]  # (outputs, inputs) for a matrix
    category: Category
    split: Split = "whole"
    copies: Positive = 1  # experts: one tensor of this shape each
    matmul: bool = False  # multiplied by the activations of every token that reaches it
    format: WeightFormat = BF16
    buffer: bool = False  # stored in the file, yet no parameter: a router's correction bias, a table of ids

    @property
    def module(self) -> str:
        """The module that holds it: what ignore lists of quantization schemes name."""
        return self.name.rsplit(".", 1)[0] if self.name.endswith((".weight", ".bias")) else self.name

    @property
    def parameters(self) -> int:
        """Elements, of all copies. A buffer has elements too; counts of parameters leave buffers out."""
        total = self.copies
        for size in self.shape:
            total *= size
        return total

    @property
    def bytes(self) -> int:
        """Of all copies, as stored: scales and zero points included."""
        return self.copies * matrix_bytes(self.shape, self.format)


class Indexer(Sized):
    """The extra key that sparse attention keeps to choose what it reads (DeepSeek's DSA, block-sparse layers)."""

    heads: Positive
    head_dim: Positive  # elements cached per token
    top_k: Positive  # tokens that attention then reads
    owns_cache: bool = True  # a layer may use another layer's choice


class Attention(Sized):
    """Softmax attention with its own keys and values."""

    kind: Literal["attention"] = "attention"
    query_heads: Positive
    kv_heads: Positive
    head_dim: Positive
    v_head_dim: Positive
    window: Positive | None = None  # tokens kept; None: all
    chunked: bool = False  # the window is a chunk that starts anew (Llama 4), not a sliding one
    owns_cache: bool = True  # False: reads an earlier layer's cache (KV sharing)
    indexer: Indexer | None = None

    @property
    def pattern(self) -> Literal["full", "sliding", "chunked"]:
        """Which earlier tokens a query sees."""
        return "full" if self.window is None else "chunked" if self.chunked else "sliding"


class LatentAttention(Sized):
    """Multi-head latent attention: one compressed vector per token instead of keys and values."""

    kind: Literal["latent"] = "latent"
    query_heads: Positive
    kv_lora_rank: Positive
    rope_head_dim: Count
    nope_head_dim: Positive
    v_head_dim: Positive
    q_lora_rank: Positive | None = None
    window: Positive | None = None  # tokens kept; None: all
    owns_cache: bool = True  # False: reads an earlier layer's latents
    indexer: Indexer | None = None


class CompressedAttention(Sized):
    """DeepSeek-V4: a short window of full vectors beside a compressed history, one vector per `ratio` tokens."""

    kind: Literal["compressed"] = "compressed"
    query_heads: Positive
    head_dim: Positive
    rope_head_dim: Count = 0
    window: Positive
    ratio: Count  # 0: the window alone
    state_elements: Count = 0  # the compressor's running state, fp32
    indexer: Indexer | None = None  # its keys are compressed by the same ratio


class CrossAttention(Sized):
    """Attention over an encoder's output: fixed by the encoder's length, nothing per decoded token."""

    kind: Literal["cross"] = "cross"
    query_heads: Positive
    kv_heads: Positive
    head_dim: Positive
    source_tokens: Positive  # encoder positions, or image tokens


class Recurrent(Sized):
    """A state of fixed size per sequence: Mamba, gated delta nets, linear attention, RWKV, short convolutions."""

    kind: Literal["recurrent"] = "recurrent"
    family: str  # mamba1 | mamba2 | gated_delta_net | kda | lightning | short_conv | rg_lru | rwkv | mlstm ...
    conv_channels: Count = 0
    conv_kernel: Count = 0  # K columns: K - 1 of them are kept between steps
    heads: Count = 0  # heads the state divides into under tensor parallelism
    state_elements: Count = 0
    state_dtype: str | None = None  # what the config says; None: the engine's rule
    groups: Count = 0  # Mamba-2: groups of B and C, repeated where tensor parallelism does not divide them
    group_channels: Count = 0  # of conv_channels, those of one group
    declared_conv_channels: Count = 0  # where a key declares another width than the heads have: engines plan by it


Mixer = Annotated[
    Attention | LatentAttention | CompressedAttention | CrossAttention | Recurrent,
    Tagged("kind"),
]


class DenseMlp(Sized):
    """An MLP that every token passes through; `gated`: with a gate beside the up-projection."""

    kind: Literal["dense"] = "dense"
    width: Positive
    gated: bool = True


class MoeMlp(Sized):
    """A mixture of experts: each token passes through `top_k` of them, and through the shared ones."""

    kind: Literal["moe"] = "moe"
    experts: Positive
    top_k: Positive
    expert_width: Positive
    shared_width: Count = 0  # all shared experts together
    gated: bool = True


Mlp = Annotated[DenseMlp | MoeMlp, Tagged("kind")]


class LayerGroup(Sized):
    """Equal layers. `layers` are their indices, so that pipeline stages and ignore lists can find them."""

    layers: tuple[Count, ...]
    mixers: tuple[Mixer, ...] = ()  # two for a parallel hybrid or a decoder with cross-attention, none for an MLP layer
    mlp: Mlp | None = None
    tensors: tuple[Tensor, ...] = ()  # of one layer
    prefix: str = "model.layers"  # of the layers' names in the checkpoint

    def __hash__(self) -> int:
        """Of what tells groups of a model apart, not of every tensor: as the model's own."""
        return hash((self.layers, len(self.tensors), len(self.mixers)))

    @property
    def count(self) -> int:
        return len(self.layers)

    @property
    def kv_heads(self) -> int:
        """KV heads of a layer: what tensors with the split `kv` divide by at most."""
        return next((mixer.kv_heads for mixer in self.mixers if isinstance(mixer, Attention | CrossAttention)), 1)

    def path(self, layer: int, tensor: Tensor) -> str:
        """A tensor's module in the checkpoint: `model.layers.3.self_attn.q_proj`. Ignore lists match on it."""
        return f"{self.prefix}.{layer}.{tensor.module}"


class Tower(Sized):
    """A part beside the text decoder: vision or audio tower, projector, encoder."""

    name: str
    kind: Literal["vision", "audio", "encoder", "other"]
    hidden: Positive | None = None
    width: Positive | None = None  # MLP width
    gated: bool = False
    layers: Count = 0
    largest_item_tokens: Count = 0  # what one image or video may become, where that is thousands; 0: ordinary size
    tensors: tuple[Tensor, ...] = ()  # of the whole tower


# Assumptions of a config's reader on which shape and cache rest: said aloud, not listed only.
DECISIVE = ("architecture", "sliding_window", "experts_per_token")


class ModelSpec(Sized):
    """Everything kvcalc knows about a model. Read it with `catalog`; never build numbers from its name."""

    name: str
    family: str  # the config's model_type
    hidden: Positive
    vocab: Positive
    max_context: Positive | None = None  # None: no limit (a pure recurrent model)
    dtype: str = "bf16"  # of the weights that no quantization covers, and of activations
    tied_embeddings: bool = False
    parallel_residual: bool = False  # attention and MLP side by side: one all-reduce a layer instead of two
    groups: tuple[LayerGroup, ...]
    tensors: tuple[Tensor, ...] = ()  # outside the layers: embedding, final norm, head
    mtp: tuple[LayerGroup, ...] = ()  # multi-token-prediction layers: in the file, idle without speculation
    towers: tuple[Tower, ...] = ()
    quantization: str | None = None  # the checkpoint's scheme, in words
    kv_cache_dtype: str | None = None  # what the checkpoint says of its cache: honoured by `auto`
    state_dtype: str | None = None  # what the config says of recurrent state
    rope_dim: Count = 0  # width of the rotary table that engines keep
    weight_file_bytes: int | None = None  # exact, from safetensors or GGUF headers; None: counted from tensors
    file_parameters: int | None = None  # exact, from headers
    assumptions: tuple[Assumption, ...] = ()
    doubts: tuple[Assumption, ...] = ()  # those of them that a strict reader refuses: keys that are not understood
    sources: tuple[Source, ...] = ()

    def __hash__(self) -> int:
        """Of what tells models apart, not of every tensor: a model is looked up often, and rarely twice alike."""
        return hash((self.name, self.dtype, self.quantization, self.hidden, len(self.groups)))

    def counted_bytes(self, drafts: bool = True) -> int:
        """Bytes of all tensors as stored: layers, embedding, head, towers; and of MTP layers, if `drafts`."""
        groups = (*self.groups, *self.mtp) if drafts else self.groups
        layers = sum(group.count * sum(tensor.bytes for tensor in group.tensors) for group in groups)
        towers = sum(tensor.bytes for tower in self.towers for tensor in tower.tensors)
        return layers + towers + sum(tensor.bytes for tensor in self.tensors)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was read with doubt, in a sentence each; and what was taken for granted that decides the shape."""
        taken = (one for one in self.assumptions if one.name in DECISIVE and one not in self.doubts)
        return (
            *(f"{one.name}{'' if one.value is None else f' {one.value}'}: {one.why}" for one in taken),
            *(f"{doubt.name} in the config: {doubt.why}" for doubt in self.doubts),
        )

    @property
    def layers(self) -> int:
        return sum(group.count for group in self.groups)
