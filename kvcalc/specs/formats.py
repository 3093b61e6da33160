"""How numbers are stored: element types, and weight formats with their scales and zero points."""

from typing import Literal

from kvcalc.specs.base import Frozen

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
