"""The weights of a decoder on the device: fused where one product serves several projections, noise or real."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kvcalc.executor.linear import Linear
from kvcalc.executor.noise import Noise
from kvcalc.executor.shape import Shape

if TYPE_CHECKING:
    import torch


@dataclass
class Layer:
    """One layer. `qkv` and `gate_up` are stacked by outputs: queries, keys, values; gate, up."""

    qkv: Linear
    o: Linear
    gate_up: Linear
    down: Linear
    input_norm: "torch.Tensor"
    post_norm: "torch.Tensor"
    qk_norms: "tuple[torch.Tensor, torch.Tensor] | None" = None

    @property
    def linears(self) -> tuple[Linear, ...]:
        return self.qkv, self.o, self.gate_up, self.down

    @property
    def norms(self) -> "tuple[torch.Tensor, ...]":
        return self.input_norm, self.post_norm, *(self.qk_norms or ())


@dataclass
class Weights:
    """The whole decoder. With tied embeddings the head is the embedding table."""

    shape: Shape
    embedding: "torch.Tensor"
    layers: list[Layer]
    final_norm: "torch.Tensor"
    head: Linear

    @property
    def bytes(self) -> int:
        """Memory that all of them hold, a tied table once."""
        linears = [linear for layer in self.layers for linear in layer.linears]
        if not self.shape.tied:
            linears.append(self.head)
        plain = [self.embedding, self.final_norm, *(norm for layer in self.layers for norm in layer.norms)]
        return sum(one.bytes for one in linears) + sum(one.untyped_storage().nbytes() for one in plain)

    def pack(self) -> None:
        """Reorder for the device. A tied table stays as it is: its rows are looked up too."""
        for layer in self.layers:
            for linear in layer.linears:
                linear.pack()
        if not self.shape.tied:
            self.head.pack()


def empty_weights(shape: Shape, dtype: "torch.dtype", device: "torch.device") -> Weights:
    """All tensors, with nothing in them yet."""
    import torch

    def tensor(*sizes: int) -> torch.Tensor:
        return torch.empty(sizes, dtype=dtype, device=device)

    def linear(outputs: int, inputs: int, bias: bool) -> Linear:
        return Linear(tensor(outputs, inputs), tensor(outputs) if bias else None)

    layers = [
        Layer(
            qkv=linear(shape.q_width + 2 * shape.kv_width, shape.hidden, shape.qkv_bias),
            o=linear(shape.hidden, shape.q_width, shape.o_bias),
            gate_up=linear(2 * shape.width, shape.hidden, shape.mlp_bias),
            down=linear(shape.hidden, shape.width, shape.mlp_bias),
            input_norm=tensor(shape.hidden),
            post_norm=tensor(shape.hidden),
            qk_norms=(tensor(shape.head_dim), tensor(shape.head_dim)) if shape.qk_norm else None,
        )
        for _ in range(shape.layers)
    ]
    embedding = tensor(shape.vocab, shape.hidden)
    head = Linear(embedding) if shape.tied else linear(shape.vocab, shape.hidden, False)
    return Weights(shape, embedding, layers, tensor(shape.hidden), head)


def random_weights(shape: Shape, dtype: "torch.dtype", device: "torch.device", seed: int = 0) -> Weights:
    """Noise of a size that keeps activations near one: products of zeros would be faster than real ones."""
    weights = empty_weights(shape, dtype, device)
    noise = Noise(seed)
    for tensor in _matrices(weights):
        noise.fill(tensor, scale=tensor.shape[-1] ** -0.5)
    for layer in weights.layers:
        for linear in layer.linears:
            if linear.bias is not None:
                noise.fill(linear.bias, scale=0.1)
        for norm in layer.norms:
            norm.fill_(1)
    weights.final_norm.fill_(1)
    return weights


def _matrices(weights: Weights) -> Iterator["torch.Tensor"]:
    yield weights.embedding
    for layer in weights.layers:
        for linear in layer.linears:
            yield linear.weight
    if not weights.shape.tied:
        yield weights.head.weight
