"""Noise to compute with: zeros are multiplied faster than real weights, and drawing gigabytes takes minutes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

DRAWN = 1_048_573  # a prime, so that no row of a matrix begins where another did


class Noise:
    """Normal numbers, drawn once and repeated from ever new places."""

    def __init__(self, seed: int = 0) -> None:
        import torch

        self._block = torch.randn(DRAWN, generator=torch.Generator().manual_seed(seed))
        self._start = 0

    def fill(self, tensor: "torch.Tensor", scale: float = 1.0) -> "torch.Tensor":
        """Fill a contiguous tensor with noise of this standard deviation, in place."""
        flat = tensor.view(-1)
        self._start = (self._start + 7919) % DRAWN
        block = self._block.roll(self._start)[: flat.numel()].mul(scale).to(tensor)
        for start in range(0, flat.numel(), block.numel()):
            part = flat[start : start + block.numel()]
            part.copy_(block[: part.numel()])
        return tensor
