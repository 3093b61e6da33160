"""How numbers are stored: element types, and weight formats with their scales and zero points."""

from math import prod
from typing import Literal

from kvcalc.specs.base import Frozen, replace

# Bits of one element, by the names that configs and engines use.
ELEMENT_BITS = {
    "fp64": 64, "fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16,
    "fp8": 8, "int8": 8, "fp4": 4, "int4": 4, "fp6": 6, "int3": 3, "int2": 2,
}  # fmt: skip

DTYPE_ALIASES = {
    "float64": "fp64", "float32": "fp32", "float": "fp32", "bfloat16": "bf16", "float16": "fp16", "half": "fp16",
    "float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "fp8_e4m3": "fp8", "fp8_e5m2": "fp8",
}  # fmt: skip


class WeightFormat(Frozen):
    """How one weight matrix is stored, its scales and zero points counted.

    `group` is the number of inputs that share a scale (None: no scale per group). `block` is a two-dimensional
    scale block, rows x columns. Bits are per element, per scale and per zero point.
    """

    name: str  # bf16, fp8, fp8-block, nvfp4, mxfp4, int4-g128, nf4 ...
    compute: str  # the element type of the arithmetic: bf16, fp8, nvfp4, int8
    bits: float
    scale: Literal["none", "tensor", "channel", "group", "block"] = "none"
    scale_bits: int = 0
    group: int | None = None
    block: tuple[int, int] | None = None
    zero_bits: float = 0  # per group or channel
    bits_per_input: int = 0  # per row of the input dimension, as GPTQ's g_idx
    bits_per_tensor: int = 0  # global scales, shapes


BF16 = WeightFormat(name="bf16", compute="bf16", bits=16)
FP16 = WeightFormat(name="fp16", compute="fp16", bits=16)
FP32 = WeightFormat(name="fp32", compute="fp32", bits=32)
PLAIN = {"bf16": BF16, "fp16": FP16, "fp32": FP32}

# The formats that need no numbers from a config. Scalars are fp32: a weight's scale, and where activations are
# quantized statically an input's.
FP8_TENSOR = WeightFormat(name="fp8", compute="fp8", bits=8, scale="tensor", scale_bits=32)
FP8_CHANNEL = WeightFormat(name="fp8-channel", compute="fp8", bits=8, scale="channel", scale_bits=32)
FP8_BLOCK = WeightFormat(name="fp8-block", compute="fp8", bits=8, scale="block", scale_bits=32, block=(128, 128))
INT8_CHANNEL = WeightFormat(name="int8", compute="int8", bits=8, scale="channel", scale_bits=32)
MXFP8 = WeightFormat(name="mxfp8", compute="mxfp8", bits=8, scale="group", scale_bits=8, group=32)
MXFP4 = WeightFormat(name="mxfp4", compute="mxfp4", bits=4, scale="group", scale_bits=8, group=32)
NVFP4 = WeightFormat(
    name="nvfp4", compute="nvfp4", bits=4, scale="group", scale_bits=8, group=16, bits_per_tensor=64
)  # an fp8 scale for 16 elements; an fp32 scale of the weight and one of the input
NVFP4_WEIGHT_ONLY = replace(NVFP4, name="nvfp4-w4a16", compute="bf16", bits_per_tensor=32)


def integer(
    bits: int,
    group: int | None,
    scale_bits: int = 16,
    zero_bits: float = 0,
    bits_per_input: int = 0,
    bits_per_tensor: int = 0,
) -> WeightFormat:
    """Integers for weights alone, computed in bf16: one scale (and zero point) per `group` inputs, or per output.

    >>> integer(4, 128, zero_bits=4).name
    'int4-g128'
    """
    scale: Literal["group", "channel"] = "group" if group else "channel"
    return WeightFormat(
        name=f"int{bits}-g{group}" if group else f"int{bits}-channel",
        compute="bf16",
        bits=bits,
        scale=scale,
        scale_bits=scale_bits,
        group=group,
        zero_bits=zero_bits,
        bits_per_input=bits_per_input,
        bits_per_tensor=bits_per_tensor,
    )


def matrix_bytes(shape: tuple[int, ...], form: WeightFormat) -> int:
    """Bytes of one tensor of this shape in this format, its scales included.

    Args:
        shape: (outputs, inputs) of a matrix, whole or one rank's share; leading dimensions are copies.
        form: how it is stored.

    Unit: bytes

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
