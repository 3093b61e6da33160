"""Schemes that have one format for what they cover: which modules those are, by the method that wrote the checkpoint.

The lists in a config name modules; what they mean is up to the method (`quantization_names`).
"""

from collections.abc import Mapping

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.quantization.cover import Module, Place, Scheme
from kvcalc.catalog.quantization.formats import fp8_blocks, fp8_static, group_of
from kvcalc.catalog.quantization.names import Choices, Names
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.formats import FP8_CHANNEL, FP8_TENSOR, INT8_CHANNEL, MXFP4, MXFP8, WeightFormat, integer

EVERYWHERE: tuple[Place, ...] = ("layer", "outside", "tower", "mtp")
LAYERS: tuple[Place, ...] = ("layer", "mtp")


def names_of(keys: Keys, *aliases: str) -> list[str]:
    """A list of module names; null, a number or a mapping of names read as what they are."""
    value = keys.raw(*aliases)
    if value is None:
        return []
    if not isinstance(value, list | Mapping) or not all(isinstance(name, str) for name in value):
        raise keys.error(aliases, value, "a list of module names")
    return [str(name) for name in value]  # tens of thousands where every expert is named


def skipped(keys: Keys, *aliases: str) -> Names:
    """The modules that a method leaves as they are, listed as transformers lists them."""
    return Names(names_of(keys, *aliases), "modules", aliases[0])


def uniform(title: str, form: WeightFormat, skip: Names, places: tuple[Place, ...]) -> Scheme:
    """One format for every usual linear in `places` that is not in `skip`."""

    def cover(module: Module) -> WeightFormat | None:
        covered = module.usual and module.place in places and module.path not in skip
        return form if covered else None

    return Scheme(title, cover)


def fp8(keys: Keys) -> Scheme:
    """`quant_method: fp8`: per tensor, or in blocks as DeepSeek-V3; experts may be packed fp4 (DeepSeek-V4).

    The list may leave out the usual (`lm_head`, routers): transformers adds those to whatever a config lists.

    Raises:
        KvcalcError: a weight_block_size of other than two numbers.
    """
    block = keys.integers("weight_block_size", least=1, most=2**16)
    if block is not None and len(block) != 2:
        raise KvcalcError("weight_block_size needs two numbers", hint="as in [128, 128]")
    # ue8m0 scales are kept as fp32 (DeepSeek-V3.1) but for checkpoints with fp4 experts, which keep them in a byte.
    packed = keys.raw("expert_dtype") in ("fp4", "mxfp4") or keys.raw("store_dtype") == "mxfp4"
    if block:
        form = fp8_blocks(block[0], block[1], 8 if packed else 32)
    else:
        form = fp8_static(FP8_TENSOR) if keys.raw("activation_scheme") == "static" else FP8_TENSOR
    skip = skipped(keys, "modules_to_not_convert", "ignored_layers")
    plain = uniform("fp8" if not block else f"fp8, blocks of {block[0]} × {block[1]}", form, skip, EVERYWHERE)
    if not packed:
        return plain
    experts = replace(MXFP4, compute="fp8")

    def cover(module: Module) -> WeightFormat | None:
        covered = plain.cover(module)
        return experts if covered and module.tensor.category == "experts" else covered

    return Scheme(f"{plain.title}, experts in mxfp4", cover)


def fbgemm(keys: Keys) -> Scheme:
    """`fbgemm_fp8`: one fp32 scale per output, and a bound of the input's scale."""
    skip = skipped(keys, "modules_to_not_convert")
    return uniform("fp8, a scale per output", fp8_static(FP8_CHANNEL), skip, EVERYWHERE)


def mxfp4(keys: Keys) -> Scheme:
    """`mxfp4` as gpt-oss has it: the experts, for weights alone."""
    skip = skipped(keys, "modules_to_not_convert")
    form = replace(MXFP4, compute="bf16")

    def cover(module: Module) -> WeightFormat | None:
        covered = module.usual and module.tensor.category == "experts" and module.path not in skip
        return form if covered else None

    return Scheme("mxfp4 experts", cover)


def mxfp8(keys: Keys) -> Scheme:
    """`mxfp8`: fp8 with a power-of-two scale for 32 inputs."""
    skip = skipped(keys, "modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
    return uniform("mxfp8", MXFP8, skip, EVERYWHERE)


def awq(keys: Keys) -> Scheme:
    """AWQ: integers with fp16 scales and packed zero points, for the layers' linears."""
    bits = keys.integer("bits", "w_bit", default=4, most=8) or 4
    group = group_of(keys, 128)
    skip = skipped(keys, "modules_to_not_convert")
    return uniform(f"awq, {_words(bits, group)}", integer(bits, group, zero_bits=bits), skip, LAYERS)


def gptq(keys: Keys) -> Scheme:
    """GPTQ: integers with fp16 scales, packed zero points and an int32 group index for each input.

    `modules_in_block_to_quantize` lists what is covered; `dynamic` excludes ("-:") or changes modules by pattern.
    """
    bits = keys.integer("bits", default=4, most=8) or 4
    group = group_of(keys, 128)
    form = integer(bits, group, zero_bits=bits, bits_per_input=32)
    listed = keys.raw("modules_in_block_to_quantize")
    chosen = _flat(listed) if isinstance(listed, list) else []
    only = Names(chosen, "modules", "modules_in_block_to_quantize") if chosen else None
    skip = skipped(keys, "modules_to_not_convert")
    rules = _gptq_rules(keys, form, bits, group)
    head = keys.flag("lm_head")

    def cover(module: Module) -> WeightFormat | None:
        if module.tensor.category == "head":
            return form if head and module.linear else None
        if not module.usual or module.place not in LAYERS or module.path in skip:
            return None
        if only is not None and module.path not in only:
            return None
        return rules.of(module.path, form)

    return Scheme(f"gptq, {_words(bits, group)}", cover)


def _gptq_rules(keys: Keys, form: WeightFormat, bits: int, group: int | None) -> Choices[WeightFormat | None]:
    """`dynamic`: patterns from the start of a module's path; "-:" leaves it as it is."""
    dynamic = keys.child("dynamic")
    rules: list[tuple[str, WeightFormat | None]] = []
    for name in dynamic.names() if dynamic else ():
        assert dynamic is not None
        pattern = "re:" + name.removeprefix("-:").removeprefix("+:")
        if name.startswith("-:"):
            rules.append((pattern, None))
            continue
        change = dynamic.child(name) or Keys({})
        own = change.integer("bits", default=bits, most=8) or bits
        size = group_of(change) if change.given("group_size") else group
        rules.append((pattern, integer(own, size, zero_bits=own, bits_per_input=form.bits_per_input)))
    return Choices(rules, "regexes", "dynamic")


def _flat(value: list[object]) -> list[str]:
    """A list of names, or of lists of names that are quantized together."""
    return [name for item in value for name in (item if isinstance(item, list) else [item]) if isinstance(name, str)]


def bitsandbytes(keys: Keys) -> Scheme:
    """bitsandbytes: nf4 or fp4 with an fp32 scale for 64 elements (8 bits when quantized twice), or int8 per output.

    Raises:
        KvcalcError: neither of its two ways is set.
    """
    skip = skipped(keys, "llm_int8_skip_modules")
    if keys.flag("load_in_4bit", "_load_in_4bit"):
        kind = keys.text("bnb_4bit_quant_type", default="fp4") or "fp4"
        twice = keys.flag("bnb_4bit_use_double_quant")
        form = WeightFormat(
            name=kind,
            compute="bf16",
            bits=4,
            scale="group",
            group=64,
            scale_bits=8 if twice else 32,
            zero_bits=32 / 256 if twice else 0,  # the scales' own scale, for 256 of them
            bits_per_tensor=32 * (16 + (256 if twice else 0)),  # the tables of the 16 values, and of the 256 scales
        )
        return uniform(f"bitsandbytes {kind}", form, skip, EVERYWHERE)
    if keys.flag("load_in_8bit", "_load_in_8bit"):
        return uniform("bitsandbytes int8", replace(INT8_CHANNEL, bits_per_tensor=8), skip, EVERYWHERE)
    raise KvcalcError("bitsandbytes without load_in_4bit or load_in_8bit", hint="set one of them to true")


def eetq(keys: Keys) -> Scheme:
    """EETQ: int8 for weights alone, one fp16 scale per output."""
    skip = skipped(keys, "modules_to_not_convert")
    return uniform("eetq int8", integer(8, None), skip, EVERYWHERE)


def hqq(keys: Keys) -> Scheme:
    """HQQ: integers with a 16-bit scale and a 16-bit zero point per group."""
    inner = keys.child("quant_config", "weight_quant_params") or keys
    inner = inner.child("weight_quant_params") or inner
    bits = inner.integer("nbits", "bits", default=4, most=8) or 4
    group = group_of(inner, 64)
    skip = skipped(keys, "skip_modules")
    return uniform(f"hqq, {_words(bits, group)}", integer(bits, group, zero_bits=16), skip, LAYERS)


def bitnet(keys: Keys) -> Scheme:
    """BitNet: three values, four to a byte, with one scale."""
    form = WeightFormat(name="ternary", compute="int8", bits=2, scale="tensor", scale_bits=16)
    skip = skipped(keys, "modules_to_not_convert")
    return uniform("bitnet, three values", form, skip, LAYERS)


def _words(bits: int, group: int | None) -> str:
    return f"{bits}-bit, groups of {group}" if group else f"{bits}-bit, a scale per output"
