"""Tensors → bytes as stored: elements, scales, zero points, global scales.

Unit: bytes
Source: exact counting of what the checkpoint's tensors hold
"""

from collections.abc import Iterable

from kvcalc.specs.formats import matrix_bytes
from kvcalc.specs.model import LayerGroup, ModelSpec, Tensor

__all__ = [
    "counted_weight_bytes",
    "groups_bytes",
    "matrix_bytes",
    "mtp_weight_bytes",
    "stored_bytes",
    "weight_bytes",
]


def stored_bytes(tensor: Tensor) -> int:
    """Bytes of a tensor and all its copies, as stored."""
    return tensor.bytes


def groups_bytes(groups: Iterable[LayerGroup]) -> int:
    """Bytes of all layers of some groups."""
    return sum(group.count * sum(stored_bytes(tensor) for tensor in group.tensors) for group in groups)


def mtp_weight_bytes(model: ModelSpec) -> int:
    """Bytes of the multi-token-prediction layers: in the file, idle without speculation. 0 where there are none."""
    return groups_bytes(model.mtp)


def counted_weight_bytes(model: ModelSpec) -> int:
    """The file's bytes as counted from the tensors: layers, embedding, head, towers and MTP layers."""
    return model.counted_bytes()


def weight_bytes(model: ModelSpec) -> int:
    """The file's bytes: exact from its headers where they were read, else counted from the tensors.

    Tensors only: the headers of safetensors and GGUF files (some kilobytes) are not weights.
    """
    return counted_weight_bytes(model) if model.weight_file_bytes is None else model.weight_file_bytes
