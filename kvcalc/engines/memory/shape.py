"""The few dimensions of a model that the profile run's memory depends on.

Source: the dimensions that the rules of `vllm/activation.py`, `vllm/workspace.py` and `sglang/memory.py` name
"""

from kvcalc.counting.rounding import VOCAB_MULTIPLE, round_up
from kvcalc.counting.weights import stored_bytes
from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES, ELEMENT_BITS
from kvcalc.specs.model import (
    CompressedAttention,
    DenseMlp,
    LatentAttention,
    LayerGroup,
    ModelSpec,
    MoeMlp,
    Recurrent,
)

PACKED = ("fp8", "fp8_e4m3", "fp8_ds_mla")


class Encoder(Frozen):
    """A vision tower whose largest input is thousands of tokens, so that it can be the profile run's peak."""

    hidden: int
    width: int
    gated: bool
    largest_item_tokens: int


class Latents(Frozen):
    """Latent attention, as far as workspaces beside it depend on it."""

    query_heads: int
    rank: int
    rope: int
    indexed: bool = False  # an indexer chooses what is read


class Compressed(Frozen):
    """Compressed attention, likewise."""

    head_dim: int
    window: int
    ratio: int  # the smallest: it keeps the most vectors
    indexed: bool = False


class ProfileShape(Frozen):
    """One rank's view: `layers` of the fullest pipeline stage, widths before tensor parallelism."""

    hidden: int
    vocab: int
    layers: int
    element_bytes: int = 2
    dense_width: int = 0  # of layers without experts
    shared_width: int = 0  # of the shared experts
    expert_width: int = 0
    top_k: int = 0
    gated: bool = True
    quantized: bool = False  # the experts' kernels are not the plain ones
    hybrid: bool = False  # has recurrent layers
    images: bool = False  # the profile run encodes an image
    encoder: Encoder | None = None
    latents: Latents | None = None  # multi-head latent attention
    compressed: Compressed | None = None
    packed_cache: bool = False  # latents are cached in fp8 with their scales beside them
    scaled_dense_bytes: int = 0  # of dense weights in fp8, scaled in blocks: on one rank
    tower_layers: int = 0  # of the vision tower
    tower_hidden: int = 0

    @property
    def latent(self) -> bool:
        return self.latents is not None

    @property
    def moe(self) -> bool:
        return self.top_k > 0

    @property
    def padded_vocab(self) -> int:
        return round_up(self.vocab, VOCAB_MULTIPLE)


def profile_shape(model: ModelSpec, deployment: Deployment) -> ProfileShape:
    """Read the dimensions off the spec."""
    dense = [group.mlp for group in model.groups if isinstance(group.mlp, DenseMlp)]
    moe = [group.mlp for group in model.groups if isinstance(group.mlp, MoeMlp)]
    dtype = model.dtype if deployment.dtype == "auto" else deployment.dtype
    bits = ELEMENT_BITS.get(DTYPE_ALIASES.get(dtype, dtype), 16)
    return ProfileShape(
        hidden=model.hidden,
        vocab=model.vocab,
        layers=-(-model.layers // deployment.pipeline_parallel_size),
        element_bytes=4 if bits == 32 else 2,
        dense_width=max((mlp.width for mlp in dense), default=0),
        shared_width=max((mlp.shared_width for mlp in moe), default=0),
        expert_width=max((mlp.expert_width for mlp in moe), default=0),
        top_k=max((mlp.top_k for mlp in moe), default=0),
        gated=all(mlp.gated for mlp in dense) and all(mlp.gated for mlp in moe),
        quantized=model.quantization is not None or deployment.quantization is not None,
        hybrid=any(_recurrent(group) for group in model.groups),
        images=any(tower.kind == "vision" for tower in model.towers),
        encoder=_encoder(model),
        latents=_latents(model),
        compressed=_compressed(model),
        packed_cache=deployment.kv_cache_dtype in PACKED or _says_fp8(model, deployment),
        scaled_dense_bytes=_scaled_dense_bytes(model, deployment),
        tower_layers=max((tower.layers for tower in model.towers if tower.kind == "vision"), default=0),
        tower_hidden=max((tower.hidden or 0 for tower in model.towers if tower.kind == "vision"), default=0),
    )


def _latents(model: ModelSpec) -> Latents | None:
    found = [mixer for group in model.groups for mixer in group.mixers if isinstance(mixer, LatentAttention)]
    if not found:
        return None
    indexed = any(mixer.indexer is not None for mixer in found)
    heads = max(mixer.query_heads for mixer in found)
    return Latents(query_heads=heads, rank=found[0].kv_lora_rank, rope=found[0].rope_head_dim, indexed=indexed)


def _compressed(model: ModelSpec) -> Compressed | None:
    found = [mixer for group in model.groups for mixer in group.mixers if isinstance(mixer, CompressedAttention)]
    if not found:
        return None
    return Compressed(
        head_dim=found[0].head_dim,
        window=max(mixer.window for mixer in found),
        ratio=min((mixer.ratio for mixer in found if mixer.ratio), default=1),
        indexed=any(mixer.indexer is not None for mixer in found),
    )


def _says_fp8(model: ModelSpec, deployment: Deployment) -> bool:
    return deployment.kv_cache_dtype == "auto" and (model.kv_cache_dtype or "").startswith("fp8")


def _scaled_dense_bytes(model: ModelSpec, deployment: Deployment) -> int:
    """fp8 matrices scaled in blocks that every token multiplies: their activations are quantized beside them."""
    ranks = deployment.tensor_parallel_size * deployment.pipeline_parallel_size
    held = (
        group.count * stored_bytes(tensor)
        for group in model.groups
        for tensor in group.tensors
        if tensor.format.block is not None and tensor.category != "experts"
    )
    return sum(held) // ranks


def _recurrent(group: LayerGroup) -> bool:
    return any(isinstance(mixer, Recurrent) for mixer in group.mixers)


def _encoder(model: ModelSpec) -> Encoder | None:
    for tower in model.towers:
        if tower.kind == "vision" and tower.hidden and tower.width and tower.largest_item_tokens:
            return Encoder(
                hidden=tower.hidden,
                width=tower.width,
                gated=tower.gated,
                largest_item_tokens=tower.largest_item_tokens,
            )
    return None
