"""The decode loop: fixed buffers for a batch, steps on them, captured as one CUDA graph where there is a GPU."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.executor.attention import attend_pages, prepare_pages
from kvcalc.executor.attention_triton import TritonAttention
from kvcalc.executor.cache import Cache
from kvcalc.executor.device import Device
from kvcalc.executor.glue import glue_for
from kvcalc.executor.linear import Linear
from kvcalc.executor.model import Model, apply_linear, greedy
from kvcalc.executor.numerics import Numerics, rotary
from kvcalc.executor.pages import Sequence
from kvcalc.executor.weights import Weights
from kvcalc.results.calibrate import Tiling

if TYPE_CHECKING:
    import torch

Step = Callable[[], None]


class Manner(NamedTuple):
    """How a decoder computes and chooses."""

    numerics: Numerics | None = None  # None: the usual ones
    sample: Callable[["torch.Tensor"], "torch.Tensor"] = greedy
    tiling: Tiling | None = None  # of the attention kernel; None: the usual one


class Decoder:
    """A batch of slots over one cache. Nothing in `step` waits for the device or asks it for a value."""

    def __init__(
        self,
        weights: Weights,
        cache: Cache,
        device: Device,
        batch: int,
        context: int,
        manner: Manner | None = None,
    ) -> None:
        """`context`: the most tokens that a slot will hold."""
        import torch

        manner = manner or Manner()
        numerics = manner.numerics or Numerics()
        shape = weights.shape
        self.device, self.sample = device, manner.sample
        self.slots: list[Sequence] = []
        self.tokens = torch.zeros(batch, dtype=torch.int64, device=device.torch)
        self.views = cache.views(batch, -(-context // cache.pages.page_size) + 1)
        attention = TritonAttention(batch, shape.kv_heads, shape.group, device.torch, manner.tiling)
        self.model = Model(
            weights=weights,
            cache=cache,
            glue=glue_for(device),
            rotary=rotary(numerics, shape.head_dim, context + 1, weights.embedding.dtype, device.torch),
            eps=numerics.eps,
            prepare=attention.prepare if device.is_gpu else prepare_pages,
            attend=attention if device.is_gpu else attend_pages,
            apply=apply_linear,
        )

    def place(self, sequences: Iterable[Sequence]) -> None:
        """Put sequences into the slots and their tables on the device."""
        self.slots = list(sequences)
        self.model.cache.show(self.slots, self.views)

    def feed(self, tokens: list[int]) -> None:
        """The tokens of the next step, one a slot."""
        import torch

        self.tokens.copy_(torch.tensor(tokens))

    def step(self, model: Model | None = None) -> None:
        """One token of every slot, sampled into `tokens`."""
        self.tokens.copy_(self.sample((model or self.model).logits(self.tokens, self.views)))

    def without(self, *terms: str) -> Model:
        """The model with "attention" or "linears" left out: what then remains is what the rest costs."""
        model = self.model
        if "attention" in terms:
            model = replace(model, prepare=lambda view, dtype: None, attend=_pass_queries)
        if "linears" in terms:
            model = replace(model, apply=Blank())
        return model


def _pass_queries(queries: "torch.Tensor", *_: object) -> "torch.Tensor":
    return queries


class Blank:
    """In place of a product: a standing buffer of its size."""

    def __init__(self) -> None:
        self._buffers: dict[tuple[int, int], torch.Tensor] = {}

    def __call__(self, linear: Linear, x: "torch.Tensor") -> "torch.Tensor":
        key = x.shape[0], linear.outputs
        if key not in self._buffers:
            self._buffers[key] = x.new_zeros(key)
        return self._buffers[key]


def captured(step: Step, device: Device) -> Step:
    """The step as one CUDA graph; on a CPU the step itself."""
    import torch

    if not device.is_gpu:
        return step
    stream = torch.cuda.Stream(device.torch)
    stream.wait_stream(torch.cuda.current_stream(device.torch))
    with torch.cuda.stream(stream):
        for _ in range(3):  # compiles kernels, fills caches, allocates scratch
            step()
    torch.cuda.current_stream(device.torch).wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay() -> None:
        graph.replay()

    replay.captured = step  # type: ignore[attr-defined]  # its tensors live as long as the graph that reads them
    return replay
