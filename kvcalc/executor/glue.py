"""Norm, rotary embedding with the cache write, and the MLP's gate: in PyTorch for any device, in Triton for GPUs."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from kvcalc.executor.cache import View
from kvcalc.executor.device import Device
from kvcalc.executor.shape import Shape

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Rotary:
    """Cosines and sines by position, [positions, head_dim / 2], in the model's dtype."""

    cos: "torch.Tensor"
    sin: "torch.Tensor"
    eps: float  # of the norms that come before it, where a model has them


class Glue(Protocol):
    """What the layers need of a device besides products and attention."""

    def norm(
        self, x: "torch.Tensor", delta: "torch.Tensor | None", weight: "torch.Tensor", eps: float
    ) -> "torch.Tensor":
        """x += delta in place; returns the normalised x."""
        ...

    def rotary(
        self,
        qkv: "torch.Tensor",
        rotary: Rotary,
        norms: "tuple[torch.Tensor, torch.Tensor] | None",
        cache: "tuple[torch.Tensor, torch.Tensor]",
        view: View,
        shape: Shape,
    ) -> "torch.Tensor":
        """Turned queries [batch, query_heads, head_dim]; turned keys and values go to their place in the cache."""
        ...

    def gate(self, gate_up: "torch.Tensor") -> "torch.Tensor":
        """silu(gate) · up."""
        ...


def glue_for(device: Device) -> Glue:
    """The pieces for this device."""
    return TritonGlue() if device.is_gpu else TorchGlue()


def norm_warps(width: int) -> int:
    """Of the one program that norms a row: with four a long row waits for its own loads.

    >>> norm_warps(1024), norm_warps(4096), norm_warps(16384)
    (4, 8, 16)
    """
    return min(16, max(4, width // 512))


class TorchGlue:
    """For a CPU, and as the reference of the kernels."""

    def norm(
        self, x: "torch.Tensor", delta: "torch.Tensor | None", weight: "torch.Tensor", eps: float
    ) -> "torch.Tensor":
        import torch.nn.functional as F

        if delta is not None:
            x += delta
        return F.rms_norm(x, weight.shape, weight, eps)

    def rotary(
        self,
        qkv: "torch.Tensor",
        rotary: Rotary,
        norms: "tuple[torch.Tensor, torch.Tensor] | None",
        cache: "tuple[torch.Tensor, torch.Tensor]",
        view: View,
        shape: Shape,
    ) -> "torch.Tensor":
        import torch
        import torch.nn.functional as F

        batch = qkv.shape[0]
        position = (view.lengths - 1).long()
        page = view.table.gather(1, (position // view.page_size).unsqueeze(1)).squeeze(1).long()
        heads = qkv.view(batch, -1, shape.head_dim)
        turned, values = heads.split((shape.query_heads + shape.kv_heads, shape.kv_heads), dim=1)
        if norms is not None:
            q, k = turned.split((shape.query_heads, shape.kv_heads), dim=1)
            width = (shape.head_dim,)
            normed = [F.rms_norm(one, width, gain, rotary.eps) for one, gain in zip((q, k), norms, strict=True)]
            turned = torch.cat(normed, dim=1)
        low, high = turned.chunk(2, dim=-1)
        cos, sin = rotary.cos[position].unsqueeze(1), rotary.sin[position].unsqueeze(1)
        turned = torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)
        queries: torch.Tensor = turned[:, : shape.query_heads]
        keys = turned[:, shape.query_heads :]
        inside = position % view.page_size
        cache[0][page, :, inside] = keys
        cache[1][page, :, inside] = values
        return queries

    def gate(self, gate_up: "torch.Tensor") -> "torch.Tensor":
        import torch.nn.functional as F

        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate).mul_(up)


class TritonGlue:
    """One kernel each."""

    def norm(
        self, x: "torch.Tensor", delta: "torch.Tensor | None", weight: "torch.Tensor", eps: float
    ) -> "torch.Tensor":
        import torch
        import triton

        from kvcalc.executor.kernels_glue import norm_kernel

        normed = torch.empty_like(x)
        width = triton.next_power_of_2(x.shape[1])
        norm_kernel[(x.shape[0],)](
            x, x if delta is None else delta, weight, normed, eps,
            HIDDEN=x.shape[1], WIDTH=width, ADD=delta is not None, num_warps=norm_warps(width),
        )  # fmt: skip
        return normed

    def rotary(
        self,
        qkv: "torch.Tensor",
        rotary: Rotary,
        norms: "tuple[torch.Tensor, torch.Tensor] | None",
        cache: "tuple[torch.Tensor, torch.Tensor]",
        view: View,
        shape: Shape,
    ) -> "torch.Tensor":
        import triton

        from kvcalc.executor.kernels_glue import rotary_kernel

        batch, half = qkv.shape[0], shape.head_dim // 2
        keys, values = cache
        queries = qkv.new_empty(batch, shape.query_heads, shape.head_dim)
        q_norm, k_norm = norms or (qkv, qkv)  # not read without NORM
        rotary_kernel[(batch, shape.query_heads + 2 * shape.kv_heads)](
            qkv, rotary.cos, rotary.sin, view.lengths, view.table, q_norm, k_norm, queries, keys, values, rotary.eps,
            view.table.stride(0), *keys.stride()[:3],
            QUERY_HEADS=shape.query_heads, KV_HEADS=shape.kv_heads, HALF=half, WIDTH=triton.next_power_of_2(half),
            PAGE=view.page_size, NORM=norms is not None,
        )  # fmt: skip
        return queries

    def gate(self, gate_up: "torch.Tensor") -> "torch.Tensor":
        import triton

        from kvcalc.executor.kernels_glue import gate_kernel

        rows, columns = gate_up.shape[0], gate_up.shape[1] // 2
        out = gate_up.new_empty(rows, columns)
        gate_kernel[(rows, triton.cdiv(columns, 1024))](gate_up, out, COLUMNS=columns, BLOCK=1024)
        return out
