"""What a quantization covers: a format for each module of a model, and the model with its tensors in them.

What no method ever quantizes unless a list says so: embeddings, norms, routers, and the small matrices that engines
build unquantized.
"""

from collections.abc import Callable
from typing import Literal, NamedTuple

from kvcalc.specs.base import replace
from kvcalc.specs.formats import BF16, PLAIN, WeightFormat
from kvcalc.specs.model import LayerGroup, ModelSpec, Tensor

Place = Literal["layer", "outside", "tower", "mtp"]
UNUSUAL = frozenset({"embedding", "position", "head", "router", "compressor"})
# Built without quantization by the engines and left so by the tools that write checkpoints: the indexer's small
# weights, the MTP layer's input projection, the gate of a shared expert.
KEPT = frozenset({"weights_proj", "indexers_proj", "eh_proj", "shared_expert_gate", "shared_expert_gate.weight"})


class Module(NamedTuple):
    """A matrix and where it is, in the checkpoint's names."""

    path: str
    tensor: Tensor
    place: Place

    @property
    def linear(self) -> bool:
        """A matrix that multiplies activations: what a scheme may cover."""
        return self.tensor.matmul and len(self.tensor.shape) == 2

    @property
    def usual(self) -> bool:
        """A linear that methods cover unless a list says otherwise."""
        kept = self.last in KEPT or ".compressor." in self.path
        return self.linear and self.tensor.category not in UNUSUAL and not kept

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]


Cover = Callable[[Module], WeightFormat | None]


class Scheme(NamedTuple):
    """A checkpoint's quantization: its name in words, and the format of each module (None: left as it is)."""

    title: str
    cover: Cover


def cover(model: ModelSpec, scheme: Scheme) -> ModelSpec:
    """Every tensor in the format that the scheme gives it. Layers that come to differ become groups of their own."""

    def outside(tensors: tuple[Tensor, ...], place: Place, under: str = "") -> tuple[Tensor, ...]:
        return tuple(_with(t, scheme.cover(Module(under + t.module, t, place))) for t in tensors)

    return replace(
        model,
        groups=tuple(part for group in model.groups for part in _split(group, scheme, "layer")),
        mtp=tuple(part for group in model.mtp for part in _split(group, scheme, "mtp")),
        tensors=outside(model.tensors, "outside"),
        towers=tuple(replace(tower, tensors=outside(tower.tensors, "tower")) for tower in model.towers),
    )


def _split(group: LayerGroup, scheme: Scheme, place: Place) -> list[LayerGroup]:
    formats: dict[tuple[WeightFormat | None, ...], list[int]] = {}
    for layer in group.layers:
        found = tuple(scheme.cover(Module(group.path(layer, t), t, place)) for t in group.tensors)
        formats.setdefault(found, []).append(layer)
    return [
        replace(
            group,
            layers=tuple(layers),
            tensors=tuple(_with(t, form) for t, form in zip(group.tensors, found, strict=True)),
        )
        for found, layers in formats.items()
    ]


def _with(tensor: Tensor, form: WeightFormat | None) -> Tensor:
    return tensor if form is None or form == tensor.format else replace(tensor, format=form)


def in_dtype(model: ModelSpec, dtype: str) -> ModelSpec:
    """The model with its default tensors in this dtype; those that a family keeps otherwise (fp32 biases) stay."""
    form = PLAIN[dtype]
    if form == BF16:
        return model
    return cover(model, Scheme(dtype, lambda module: form if module.tensor.format == BF16 else None))
