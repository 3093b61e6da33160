"""Decoders without weights of their own: what a layer does besides products, alone or with foreign products between."""

from dataclasses import replace
from typing import TYPE_CHECKING

from kvcalc.executor.cache import Cache
from kvcalc.executor.device import Device, torch_dtype
from kvcalc.executor.linear import Linear
from kvcalc.executor.loop import Decoder, Manner
from kvcalc.executor.microbench import Stream, drawn
from kvcalc.executor.model import Model
from kvcalc.executor.shape import Shape
from kvcalc.executor.weights import empty_weights
from kvcalc.results.calibrate import Tiling

if TYPE_CHECKING:
    import torch


def skeleton(
    device: Device, dtype: str, shape: Shape, held: tuple[int, int], page_size: int = 64, tiling: Tiling | None = None
) -> Decoder:
    """A decoder over a full cache whose matrices are allocated and never touched: its products are to be left out.

    Args:
        held: sequences, and tokens of each.
        tiling: of the attention kernel.
    """
    batch, context = held
    kind = torch_dtype(dtype)
    weights = empty_weights(shape, kind, device.torch)
    for tensor in (weights.embedding, weights.final_norm, *(norm for layer in weights.layers for norm in layer.norms)):
        tensor.fill_(1)
    cache = Cache(shape, [batch * -(-context // page_size)], page_size, kind, device.torch)
    cache.fill(drawn())
    decoder = Decoder(weights, cache, device, batch, context, Manner(tiling=tiling))
    decoder.place(cache.pages.start(context) for _ in range(batch))
    return decoder


def streaming(decoder: Decoder, model: Model, stream: Stream) -> Model:
    """The model with a product of the stream in place of each of its own.

    In a model weights pass through the caches between any two other calls, which therefore find neither their data nor
    their own code there: on a CPU that doubles what small calls take. Called back to back they would look too fast.
    """
    blank = decoder.without("linears").apply

    def apply(linear: Linear, x: "torch.Tensor") -> "torch.Tensor":
        stream()
        return blank(linear, x)

    return replace(model, apply=apply)
