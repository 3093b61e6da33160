"""Weight formats from the numbers that a scheme gives: bits, group sizes, kinds of scale."""

from collections.abc import Callable

from kvcalc.catalog.config.keys import Keys, shown
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.formats import (
    DTYPE_ALIASES,
    ELEMENT_BITS,
    FP8_BLOCK,
    FP8_CHANNEL,
    FP8_TENSOR,
    INT8_CHANNEL,
    MXFP4,
    MXFP8,
    NVFP4,
    NVFP4_WEIGHT_ONLY,
    WeightFormat,
    integer,
)

LARGEST_GROUP = 2**16


def unknown(what: str, value: object, where: str = "quantization_config") -> KvcalcError:
    """The error for a scheme that kvcalc does not know: it names the scheme."""
    return KvcalcError(
        f"{where}: unknown {what} {shown(value)}",
        hint="`kvcalc models --help` lists the schemes; the unquantized model can be sized with --quantization",
    )


def fp8_static(form: WeightFormat, bits: int = 32) -> WeightFormat:
    """With a scale of the input beside the weight's: activations quantized by a scale from calibration."""
    return replace(form, bits_per_tensor=form.bits_per_tensor + bits)


def fp8_blocks(rows: int, columns: int, scale_bits: int = 32) -> WeightFormat:
    """fp8 with one scale for each block of rows × columns."""
    return replace(FP8_BLOCK, block=(rows, columns), scale_bits=scale_bits)


def bf16_scales(form: WeightFormat) -> WeightFormat:
    """The same with 16-bit scales: compressed-tensors keeps scales in the dtype of the weights."""
    return replace(form, scale_bits=16)


def group_of(keys: Keys, default: int | None = None) -> int | None:
    """A `group_size`; -1 or 0 means one scale per output."""
    size = keys.integer("group_size", "q_group_size", default=default, least=-1, most=LARGEST_GROUP)
    return size if size and size > 0 else None


def modelopt_format(algorithm: str, group: int | None, where: str) -> WeightFormat | None:
    """A `quant_algo` of NVIDIA's ModelOpt. None: the layer is left as it is."""
    match algorithm.upper().removeprefix("QUANTALGO."):
        case "FP8":
            return fp8_static(FP8_TENSOR)
        case "FP8_PER_CHANNEL_PER_TOKEN":
            return FP8_CHANNEL
        case "FP8_PB_WO" | "FP8_BLOCK_SCALES":
            return fp8_blocks(group or 128, group or 128)
        case "NVFP4":
            return replace(NVFP4, group=group or 16)
        case "NVFP4_AWQ":
            return replace(NVFP4, group=group or 16, bits_per_input=16)  # pre_quant_scale
        case "W4A16_NVFP4":
            return replace(NVFP4_WEIGHT_ONLY, group=group or 16)
        case "MXFP8":
            return MXFP8
        case "MXFP4" | "W4A8_MXFP4_FP8" | "W4A16_MXFP4":
            return MXFP4
        case "W8A8_SQ_PER_CHANNEL" | "INT8_SQ" | "W8A8_SQ_PER_CHANNEL_PER_TOKEN_PLUGIN":
            return INT8_CHANNEL
        case "W8A16":
            return integer(8, None)
        case "W4A16":
            return integer(4, group or 128)
        case "INT4_AWQ" | "W4A16_AWQ":
            return integer(4, group or 128, bits_per_input=16)
        case "W4A8_AWQ":
            return replace(integer(4, group or 128, bits_per_input=16), compute="fp8")
        case "NONE" | "":
            return None
    raise unknown("quant_algo", algorithm, where)


def _packed_integer(bits: int, group: int | None, keys: Keys, scale_bits: int, shape_bits: int) -> WeightFormat:
    """Integers packed into int32, for weights alone, with the shape kept beside them."""
    zero = 0 if keys.flag("symmetric", default=True) else bits
    reordered = keys.raw("actorder") in ("group", True)
    return integer(
        bits, group, scale_bits, zero, bits_per_input=32 if reordered and group else 0, bits_per_tensor=shape_bits
    )


def compressed_format(weights: Keys, activations: Keys | None, layout: str | None, shape_bits: int) -> WeightFormat:
    """The format of one group of compressed-tensors.

    Args:
        weights: its `weights`: num_bits, type, strategy, group_size, block_structure, symmetric.
        activations: its `input_activations`, if any: without, the arithmetic is bf16's.
        layout: its `format`: pack-quantized, float-quantized, nvfp4-pack-quantized ...
        shape_bits: of the stored shape of a packed weight.
    """
    bits = weights.need("num_bits", most=16)
    kind = weights.text("type", default="int") or "int"
    group = group_of(weights)
    strategy = weights.text("strategy") or ("group" if group else "tensor")
    static = activations is not None and activations.raw("dynamic") is False
    if kind == "float" and bits == 4:
        form = _four_bit_float(group or 16, layout, activations is not None)
    elif kind == "float" and bits == 8:
        form = _eight_bit_float(weights, group, strategy)
    elif kind == "int" and activations is not None and bits == 8 and layout != "pack-quantized":
        form = (
            bf16_scales(INT8_CHANNEL)
            if strategy != "tensor"
            else replace(FP8_TENSOR, name="int8-tensor", compute="int8", scale_bits=16)
        )
    elif kind == "int" and bits in (2, 3, 4, 8):
        form = _packed_integer(bits, group, weights, 16, shape_bits)
        if activations is not None:
            form = replace(form, compute="int8" if activations.raw("type") == "int" else "fp8")
    else:
        raise unknown("weights", f"{bits}-bit {kind}", weights.path("num_bits"))
    return fp8_static(form, 16) if static and form.compute in ("fp8", "int8") else form


def _four_bit_float(group: int, layout: str | None, activations: bool) -> WeightFormat:
    if (layout or "").startswith("mxfp4") or group == 32:
        return replace(MXFP4, group=group, compute="mxfp4" if activations else "bf16")
    form = NVFP4 if activations else NVFP4_WEIGHT_ONLY
    return replace(form, group=group)


def _eight_bit_float(weights: Keys, group: int | None, strategy: str) -> WeightFormat:
    block = weights.integers("block_structure", least=1, most=LARGEST_GROUP)
    if strategy == "block" or block:
        rows, columns = block if block and len(block) == 2 else (128, 128)
        return fp8_blocks(rows, columns, 16)
    if strategy == "channel":
        return bf16_scales(FP8_CHANNEL)
    if group == 32:
        return MXFP8
    if group:
        return replace(FP8_CHANNEL, name=f"fp8-g{group}", scale="group", group=group, scale_bits=16)
    return bf16_scales(FP8_TENSOR)


def quark_format(weight: Keys, activations: bool) -> WeightFormat:
    """The format of one tensor spec of AMD's Quark: dtype, qscheme, group_size, scale_format."""
    said = weight.text("dtype") or ""
    element = {"uint4": "int4", "uint8": "int8", "fp6_e3m2": "fp6", "fp6_e2m3": "fp6"}.get(said, said)
    element = DTYPE_ALIASES.get(element, element)
    if element not in ELEMENT_BITS:
        raise unknown("dtype", said, weight.path("dtype"))
    scheme = weight.text("qscheme", default="per_tensor") or "per_tensor"
    group = group_of(weight) if scheme == "per_group" else None
    e8m0 = weight.raw("scale_format") == "e8m0"
    if element in ("fp4", "fp6", "fp8") and group and e8m0:
        name, bits = f"mx{element}", ELEMENT_BITS[element]
        return replace(MXFP4, name=name, bits=bits, group=group, compute=name if activations else "bf16")
    if element == "fp4" and group:
        return replace(NVFP4 if activations else NVFP4_WEIGHT_ONLY, group=group)
    if element in ("fp8", "int8") and not group:
        base = FP8_TENSOR if scheme == "per_tensor" else FP8_CHANNEL
        form = replace(base, compute=element if activations else "bf16")
        form = form if element == "fp8" else replace(form, name="int8")
        return fp8_static(form) if activations and scheme == "per_tensor" else form
    if element in ("int4", "int8"):
        return integer(ELEMENT_BITS[element], group, zero_bits=ELEMENT_BITS[element])
    raise unknown("dtype and qscheme", f"{said} {scheme}", weight.path("dtype"))


def torchao_format(kind: str, data: Keys) -> WeightFormat | None:
    """One configuration class of torchao. None: the layer is left as it is."""
    name = kind.removesuffix("Config").lower()
    by_name: dict[str, Callable[[], WeightFormat]] = {
        "int4weightonly": lambda: integer(4, group_of(data, 128), zero_bits=16),
        "int8weightonly": lambda: integer(8, group_of(data)),
        "int8dynamicactivationint8weight": lambda: bf16_scales(INT8_CHANNEL),
        "int8dynamicactivationint4weight": lambda: integer(4, group_of(data, 32)),
        "int8dynamicactivationintxweight": lambda: integer(_intx_bits(data), 32),
        "float8weightonly": lambda: replace(FP8_TENSOR, compute="bf16"),
        "float8dynamicactivationfloat8weight": lambda: FP8_CHANNEL if _per_row(data) else FP8_TENSOR,
        "float8dynamicactivationint4weight": lambda: replace(integer(4, 128), compute="fp8"),
        "float8staticactivationfloat8weight": lambda: fp8_static(FP8_TENSOR),
        "nvfp4dynamicactivationnvfp4weight": lambda: NVFP4,
        "nvfp4inference": lambda: NVFP4,
        "mxfp4": lambda: MXFP4,
        "mxfp8": lambda: MXFP8,
    }
    if name in by_name:
        return by_name[name]()
    raise unknown("torchao configuration", kind)


def _intx_bits(data: Keys) -> int:
    said = data.raw("weight_dtype")
    text = str(said.get("_data")) if isinstance(said, dict) else str(said)
    digits = text.removeprefix("torch.").removeprefix("u").removeprefix("int")
    if not digits.isdecimal() or not 1 <= int(digits) <= 8:
        raise unknown("weight_dtype", text[:40])
    return int(digits)


def _per_row(data: Keys) -> bool:
    return "PerRow" in str(data.raw("granularity"))[:1000]
