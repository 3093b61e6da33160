"""quantization_config → Scheme: which module is stored in which format, by the method that wrote the checkpoint.

The lists in a config name modules; what they mean is up to the method (`quantization_names`). What no method ever
quantizes unless a list says so: embeddings, norms, routers, and the small matrices that engines build unquantized.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from kvcalc.catalog.keys import Keys, shown
from kvcalc.catalog.quantization_formats import (
    fp8_blocks,
    fp8_static,
    group_of,
    modelopt_format,
    torchao_format,
    unknown,
)
from kvcalc.catalog.quantization_names import Choices, Names
from kvcalc.errors import KvcalcError
from kvcalc.specs.formats import FP8_CHANNEL, FP8_TENSOR, INT8_CHANNEL, MXFP4, MXFP8, WeightFormat, integer
from kvcalc.specs.model import Tensor

Place = Literal["layer", "outside", "tower", "mtp"]
UNUSUAL = frozenset({"embedding", "position", "head", "router", "compressor"})
# Built without quantization by the engines and left so by the tools that write checkpoints: the indexer's small
# weights, the MTP layer's input projection, the gate of a shared expert.
KEPT = frozenset({"weights_proj", "indexers_proj", "eh_proj", "shared_expert_gate", "shared_expert_gate.weight"})


@dataclass(frozen=True)
class Module:
    """A matrix and where it is, in the checkpoint's names."""

    path: str
    tensor: Tensor
    place: Place

    @property
    def linear(self) -> bool:
        """A matrix that multiplies activations: what a scheme may cover."""
        return self.tensor.matmul and len(self.tensor.shape) == 2

    @property
    def usual(self) -> bool:
        """A linear that methods cover unless a list says otherwise."""
        kept = self.last in KEPT or ".compressor." in self.path
        return self.linear and self.tensor.category not in UNUSUAL and not kept

    @property
    def last(self) -> str:
        return self.path.rpartition(".")[2]


Cover = Callable[[Module], WeightFormat | None]


@dataclass(frozen=True)
class Scheme:
    """A checkpoint's quantization: its name in words, and the format of each module (None: left as it is)."""

    title: str
    cover: Cover


def names_of(keys: Keys, *aliases: str) -> list[str]:
    """A list of module names; null, a number or a mapping of names read as what they are."""
    value = keys.raw(*aliases)
    if value is None:
        return []
    if not isinstance(value, list | Mapping) or not all(isinstance(name, str) for name in value):
        raise keys.error(aliases, value, "a list of module names")
    return [str(name) for name in value]  # tens of thousands where every expert is named


def _uniform(title: str, form: WeightFormat, skip: Names, places: tuple[Place, ...]) -> Scheme:
    """One format for every usual linear in `places` that is not in `skip`."""

    def cover(module: Module) -> WeightFormat | None:
        covered = module.usual and module.place in places and module.path not in skip
        return form if covered else None

    return Scheme(title, cover)


EVERYWHERE: tuple[Place, ...] = ("layer", "outside", "tower", "mtp")
LAYERS: tuple[Place, ...] = ("layer", "mtp")


def fp8(keys: Keys) -> Scheme:
    """`quant_method: fp8`: per tensor, or in blocks as DeepSeek-V3; experts may be packed fp4 (DeepSeek-V4).

    The list may leave out the usual (`lm_head`, routers): transformers adds those to whatever a config lists.
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
    skip = Names(names_of(keys, "modules_to_not_convert", "ignored_layers"), "modules", "modules_to_not_convert")
    plain = _uniform("fp8" if not block else f"fp8, blocks of {block[0]} × {block[1]}", form, skip, EVERYWHERE)
    if not packed:
        return plain
    experts = MXFP4.model_copy(update={"compute": "fp8"})

    def cover(module: Module) -> WeightFormat | None:
        covered = plain.cover(module)
        return experts if covered and module.tensor.category == "experts" else covered

    return Scheme(f"{plain.title}, experts in mxfp4", cover)


def fbgemm(keys: Keys) -> Scheme:
    """`fbgemm_fp8`: one fp32 scale per output, and a bound of the input's scale."""
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
    return _uniform("fp8, a scale per output", fp8_static(FP8_CHANNEL), skip, EVERYWHERE)


def mxfp4(keys: Keys) -> Scheme:
    """`mxfp4` as gpt-oss has it: the experts, for weights alone."""
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
    form = MXFP4.model_copy(update={"compute": "bf16"})

    def cover(module: Module) -> WeightFormat | None:
        covered = module.usual and module.tensor.category == "experts" and module.path not in skip
        return form if covered else None

    return Scheme("mxfp4 experts", cover)


def mxfp8(keys: Keys) -> Scheme:
    """`mxfp8`: fp8 with a power-of-two scale for 32 inputs."""
    listed = names_of(keys, "modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
    return _uniform("mxfp8", MXFP8, Names(listed, "modules", "modules_to_not_convert"), EVERYWHERE)


def awq(keys: Keys) -> Scheme:
    """AWQ: integers with fp16 scales and packed zero points, for the layers' linears."""
    bits = keys.integer("bits", "w_bit", default=4, most=8) or 4
    group = group_of(keys, 128)
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
    return _uniform(f"awq, {_words(bits, group)}", integer(bits, group, zero_bits=bits), skip, LAYERS)


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
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
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
    """bitsandbytes: nf4 or fp4 with an fp32 scale for 64 elements (8 bits when quantized twice), or int8 per output."""
    skip = Names(names_of(keys, "llm_int8_skip_modules"), "modules", "llm_int8_skip_modules")
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
        return _uniform(f"bitsandbytes {kind}", form, skip, EVERYWHERE)
    if keys.flag("load_in_8bit", "_load_in_8bit"):
        return _uniform("bitsandbytes int8", INT8_CHANNEL.model_copy(update={"bits_per_tensor": 8}), skip, EVERYWHERE)
    raise KvcalcError("bitsandbytes without load_in_4bit or load_in_8bit", hint="set one of them to true")


def modelopt(keys: Keys) -> Scheme:
    """NVIDIA ModelOpt: one algorithm with a list of excluded modules, or MIXED_PRECISION with a list of layers."""
    inner = keys.child("quantization") or keys
    algorithm = inner.text("quant_algo")
    if algorithm is None:
        raise KvcalcError("the ModelOpt quantization has no quant_algo", hint="as in NVFP4 or FP8")
    listed = names_of(inner, "ignore", "exclude_modules")
    skip = Names(listed, "globs", "exclude_modules")
    group = group_of(inner)
    if algorithm.upper() == "MIXED_PRECISION":
        return _modelopt_mixed(inner, group)
    form = modelopt_format(algorithm, group, inner.path("quant_algo"))

    def cover(module: Module) -> WeightFormat | None:
        if module.place == "tower" or not module.linear or module.path in skip:
            return None
        # A head is excluded by name; where there is no list at all it is left alone, as ModelOpt's defaults do.
        head = module.tensor.category == "head" and bool(listed)
        return form if module.usual or head else None

    return Scheme(f"modelopt {algorithm.lower()}", cover)


def _modelopt_mixed(keys: Keys, group: int | None) -> Scheme:
    layers = keys.child("quantized_layers")
    if layers is None or not list(layers.names()):
        raise KvcalcError("MIXED_PRECISION without quantized_layers", hint="ModelOpt lists them in quantization_config")
    rules = [(name, _layer_format(layers, name, group)) for name in layers.names()]
    chosen = Choices(rules, "globs", "quantized_layers")
    # DeepSeek-V4: what the list does not name stays as the original fp8 checkpoint had it.
    rest = fp8(keys) if keys.raw("quant_method") == "fp8" and keys.given("weight_block_size") else None

    def cover(module: Module) -> WeightFormat | None:
        return chosen.of(module.path, rest.cover(module) if rest else None) if module.linear else None

    kinds = ", ".join(sorted({form.name for _, form in rules if form} | ({"fp8-block"} if rest else set())))
    return Scheme(f"modelopt mixed precision: {kinds}", cover)


def _layer_format(layers: Keys, name: str, group: int | None) -> WeightFormat | None:
    entry = layers.child(name) or Keys({})
    return modelopt_format(entry.text("quant_algo") or "", group_of(entry) or group, layers.path(name))


def torchao(keys: Keys) -> Scheme:
    """torchao: one configuration class, or one for each module (FqnToConfig)."""
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
    said = keys.raw("quant_type")
    if isinstance(said, str):
        form = torchao_format(said.replace("_", ""), keys.child("quant_type_kwargs") or Keys({}))
        return _uniform(f"torchao {said}", form, skip, EVERYWHERE) if form else Scheme("none", lambda _: None)
    outer = keys.child("quant_type")
    default = (outer.child("default") if outer else None) or Keys({})
    kind = default.text("_type") or ""
    data = default.child("_data") or Keys({})
    if not kind.removesuffix("Config").lower().endswith(("fqnto", "modulefqnto")):
        form = torchao_format(kind, data)
        return _uniform(f"torchao {kind}", form, skip, EVERYWHERE) if form else Scheme("none", lambda _: None)
    table = data.child("fqn_to_config", "module_fqn_to_config") or Keys({})
    rules: dict[str, WeightFormat | None] = {}
    for name in table.names():
        entry = table.child(name)
        rules[name] = torchao_format(entry.text("_type") or "", entry.child("_data") or Keys({})) if entry else None
    fallback = rules.pop("_default", None)
    chosen = Choices(rules.items(), "regexes", "fqn_to_config")

    def cover(module: Module) -> WeightFormat | None:
        if not module.linear or module.path in skip:
            return None
        return chosen.of(module.path, fallback if module.usual else None)

    return Scheme("torchao by module", cover)


def eetq(keys: Keys) -> Scheme:
    """EETQ: int8 for weights alone, one fp16 scale per output."""
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
    return _uniform("eetq int8", integer(8, None), skip, EVERYWHERE)


def hqq(keys: Keys) -> Scheme:
    """HQQ: integers with a 16-bit scale and a 16-bit zero point per group."""
    inner = keys.child("quant_config", "weight_quant_params") or keys
    inner = inner.child("weight_quant_params") or inner
    bits = inner.integer("nbits", "bits", default=4, most=8) or 4
    group = group_of(inner, 64)
    skip = Names(names_of(keys, "skip_modules"), "modules", "skip_modules")
    return _uniform(f"hqq, {_words(bits, group)}", integer(bits, group, zero_bits=16), skip, LAYERS)


def bitnet(keys: Keys) -> Scheme:
    """BitNet: three values, four to a byte, with one scale."""
    form = WeightFormat(name="ternary", compute="int8", bits=2, scale="tensor", scale_bits=16)
    skip = Names(names_of(keys, "modules_to_not_convert"), "modules", "modules_to_not_convert")
    return _uniform("bitnet, three values", form, skip, LAYERS)


def _words(bits: int, group: int | None) -> str:
    return f"{bits}-bit, groups of {group}" if group else f"{bits}-bit, a scale per output"


def unsupported(method: object) -> KvcalcError:
    """A quant_method that kvcalc does not know."""
    return unknown("quant_method", method if isinstance(method, str) else shown(method))
