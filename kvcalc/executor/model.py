"""One decode step of a Llama-shaped model: one token of every sequence through all layers."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kvcalc.executor.cache import Cache, View
from kvcalc.executor.glue import Glue, Rotary
from kvcalc.executor.linear import Linear
from kvcalc.executor.weights import Weights

if TYPE_CHECKING:
    import torch

Apply = Callable[[Linear, "torch.Tensor"], "torch.Tensor"]
Probe = Callable[[int, "torch.Tensor", "torch.Tensor"], None]


@dataclass
class Model:
    """Everything that stays the same from step to step. `attend` and `apply` may be replaced to leave a term out."""

    weights: Weights
    cache: Cache
    glue: Glue
    rotary: Rotary
    eps: float
    prepare: Callable[[View, "torch.dtype"], Any]
    attend: Callable[..., "torch.Tensor"]
    apply: Apply

    def logits(self, tokens: "torch.Tensor", views: list[View], probe: Probe | None = None) -> "torch.Tensor":
        """Logits of the next token, [batch, vocab]. Writes the token's keys and values at `lengths - 1`.

        Args:
            tokens: int64 [batch].
            views: one for each window of the model.
            probe: called after each layer's attention with (layer, queries, outputs).
        """
        shape, glue = self.weights.shape, self.glue
        x = self.weights.embedding[tokens]
        prepared = [self.prepare(view, x.dtype) for view in views]
        delta = None
        for index, layer in enumerate(self.weights.layers):
            place = self.cache.place[index]
            view, held = views[place], self.cache.layers[index]
            qkv = self.apply(layer.qkv, glue.norm(x, delta, layer.input_norm, self.eps))
            queries = glue.rotary(qkv, self.rotary, layer.qk_norms, held, view, shape)
            attended = self.attend(queries, *held, view, prepared[place])
            if probe is not None:
                probe(index, queries, attended)
            delta = self.apply(layer.o, attended.reshape(-1, shape.q_width))
            gate_up = self.apply(layer.gate_up, glue.norm(x, delta, layer.post_norm, self.eps))
            delta = self.apply(layer.down, glue.gate(gate_up))
        return self.apply(self.weights.head, glue.norm(x, delta, self.weights.final_norm, self.eps))


def apply_linear(linear: Linear, x: "torch.Tensor") -> "torch.Tensor":
    """The product itself."""
    return linear(x)


def greedy(logits: "torch.Tensor") -> "torch.Tensor":
    """The likeliest token of each row."""
    return logits.argmax(dim=-1)


def sampler(temperature: float) -> Callable[["torch.Tensor"], "torch.Tensor"]:
    """Tokens drawn from softmax(logits / temperature) without leaving the device; greedy at 0.

    The largest of logits / temperature + Gumbel noise is such a draw: no sort, no sum, no host.
    """
    import torch

    if temperature == 0:
        return greedy

    def draw(logits: torch.Tensor) -> torch.Tensor:
        scaled = logits.float() / temperature
        noise = torch.empty_like(scaled).exponential_().log_()
        return (scaled - noise).argmax(dim=-1)

    return draw
