"""Tensors → bytes as stored: elements, scales, zero points, global scales."""

from collections.abc import Iterable
from math import prod

from kvcalc.specs.formats import WeightFormat
from kvcalc.specs.model import LayerGroup, ModelSpec, Tensor


def matrix_bytes(shape: tuple[int, ...], form: WeightFormat) -> int:
    """Bytes of one tensor of this shape in this format, its scales included.

    Args:
        shape: (outputs, inputs) of a matrix, whole or one rank's share; leading dimensions are copies.
        form: how it is stored.

    Unit: bytes

    >>> from kvcalc.specs.formats import BF16, FP8_BLOCK, NVFP4
    >>> matrix_bytes((1024, 4096), BF16) == 1024 * 4096 * 2
    True
    >>> matrix_bytes((1000, 200), FP8_BLOCK) == 1000 * 200 + 8 * 2 * 4  # an fp32 scale for each 128 × 128 block
    True
    >>> matrix_bytes((1024, 4096), NVFP4) == 1024 * 4096 // 2 + 1024 * 256 + 8  # and two fp32 scalars
    True
    """
    bits: float = prod(shape) * form.bits
    *copies, outputs, inputs = (1, *shape) if len(shape) > 1 else (1, 1, *shape)
    scales = _scales(outputs, inputs, form)
    extra = scales * form.scale_bits + (scales * form.zero_bits if form.scale != "tensor" else 0)
    extra += form.bits_per_input * inputs + form.bits_per_tensor
    bits += extra * prod(copies)
    return -int(-bits // 8)


def _scales(outputs: int, inputs: int, form: WeightFormat) -> int:
    """How many scales a matrix has."""
    match form.scale:
        case "none":
            return 0
        case "tensor":
            return 1
        case "channel":
            return outputs
        case "group":
            assert form.group is not None
            return outputs * -(-inputs // form.group)
        case "block":
            assert form.block is not None
            return -(-outputs // form.block[0]) * -(-inputs // form.block[1])


def stored_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor and all its copies, as stored."""
    return tensor.copies * matrix_bytes(tensor.shape, tensor.format)


def groups_bytes(groups: Iterable[LayerGroup]) -> int:
    """Bytes of all layers of some groups."""
    return sum(group.count * sum(stored_bytes(tensor) for tensor in group.tensors) for group in groups)


def mtp_weight_bytes(model: ModelSpec) -> int:
    """Bytes of the multi-token-prediction layers: in the file, idle without speculation. 0 where there are none."""
    return groups_bytes(model.mtp)


def counted_weight_bytes(model: ModelSpec) -> int:
    """The file's bytes as counted from the tensors: layers, embedding, head, towers and MTP layers."""
    outside = sum(stored_bytes(tensor) for tensor in model.tensors)
    towers = sum(stored_bytes(tensor) for tower in model.towers for tensor in tower.tensors)
    return groups_bytes(model.groups) + outside + towers + mtp_weight_bytes(model)


def weight_bytes(model: ModelSpec) -> int:
    """The file's bytes: exact from its headers where they were read, else counted from the tensors.

    Tensors only: the headers of safetensors and GGUF files (some kilobytes) are not weights.
    """
    return counted_weight_bytes(model) if model.weight_file_bytes is None else model.weight_file_bytes
