"""A matrix product with weights that stay: PyTorch's own, or oneDNN's with weights in its blocked order on a CPU."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

PACKING_ROWS = 16  # the row count that oneDNN chooses its blocks for


class Linear:
    """y = x Wᵀ + b."""

    def __init__(self, weight: "torch.Tensor", bias: "torch.Tensor | None" = None) -> None:
        self.weight = weight
        self.bias = bias
        self.packed = False
        self.outputs, self.inputs = weight.shape

    def __call__(self, x: "torch.Tensor") -> "torch.Tensor":
        import torch
        import torch.nn.functional as F

        if self.packed:
            found: torch.Tensor = torch.ops.mkldnn._linear_pointwise(x, self.weight, self.bias, "none", [], "")
            return found
        return F.linear(x, self.weight, self.bias)

    def pack(self) -> None:
        """Reorder the weights for oneDNN, where that takes no more memory. Up to five times as fast on few rows.

        The operators are private to PyTorch (its own compiler calls them); without them nothing changes.
        """
        import torch

        if self.packed or self.weight.device.type != "cpu":
            return
        try:
            packed = torch.ops.mkldnn._reorder_linear_weight(self.weight, PACKING_ROWS)
            fits = torch.ops.mkldnn._nbytes(packed) == self.weight.nbytes
        except (AttributeError, RuntimeError):
            return
        if fits:
            self.weight, self.packed = packed, True

    def dense(self) -> "torch.Tensor":
        """The weights as [outputs, inputs]."""
        return self.weight.to_dense() if self.packed else self.weight

    @property
    def bytes(self) -> int:
        """Memory that weights and bias hold."""
        import torch

        held = torch.ops.mkldnn._nbytes(self.weight) if self.packed else self.weight.untyped_storage().nbytes()
        return int(held) + (0 if self.bias is None else self.bias.untyped_storage().nbytes())
