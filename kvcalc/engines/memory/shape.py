"""The few dimensions of a model that the profile run's memory depends on."""

from kvcalc.specs.base import Frozen
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES, ELEMENT_BITS
from kvcalc.specs.model import DenseMlp, LatentAttention, LayerGroup, ModelSpec, MoeMlp, Recurrent


class Encoder(Frozen):
    """A vision tower whose largest input is thousands of tokens, so that it can be the profile run's peak."""

    hidden: int
    width: int
    gated: bool
    largest_item_tokens: int


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
    latent: bool = False  # multi-head latent attention
    tower_layers: int = 0  # of the vision tower
    tower_hidden: int = 0

    @property
    def moe(self) -> bool:
        return self.top_k > 0

    @property
    def padded_vocab(self) -> int:
        return -(-self.vocab // 64) * 64


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
        latent=any(isinstance(mixer, LatentAttention) for group in model.groups for mixer in group.mixers),
        tower_layers=max((tower.layers for tower in model.towers if tower.kind == "vision"), default=0),
        tower_hidden=max((tower.hidden or 0 for tower in model.towers if tower.kind == "vision"), default=0),
    )


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
