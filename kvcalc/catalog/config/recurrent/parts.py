"""Tensors of recurrent mixers: all of one category, some kept in fp32 by checkpoints."""

from typing import NamedTuple

from kvcalc.catalog.config.families.tensors import linear
from kvcalc.specs.base import replace
from kvcalc.specs.formats import BF16, FP32
from kvcalc.specs.model import Recurrent, Split, Tensor


class Mixed(NamedTuple):
    """A recurrent mixer and the tensors of one layer's."""

    mixer: Recurrent
    tensors: tuple[Tensor, ...]


def matrix(name: str, outputs: int, inputs: int, split: Split, bias: bool = False, copies: int = 1) -> list[Tensor]:
    """A projection, with its bias where it has one."""
    return [replace(tensor, copies=copies) for tensor in linear(name, outputs, inputs, "recurrent", split, bias)]


def vector(name: str, *shape: int, split: Split = "columns", fp32: bool = False) -> list[Tensor]:
    """What is no matrix of activations: decays, gains, norms. Heads and channels divide over ranks ("columns")."""
    return [Tensor(name=name, shape=shape, category="recurrent", split=split, format=FP32 if fp32 else BF16)]


def depthwise(name: str, channels: int, kernel: int, bias: bool = False) -> list[Tensor]:
    """A causal convolution along the sequence, one filter a channel."""
    found = vector(f"{name}.weight", channels, 1, kernel)
    return found + vector(f"{name}.bias", channels) if bias else found


def dotted(prefix: str) -> str:
    """A prefix that names can follow: "mixer" → "mixer."."""
    return f"{prefix}." if prefix else ""
