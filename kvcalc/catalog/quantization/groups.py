"""Schemes that give each group of modules a format of its own: compressed-tensors, Quark, ModelOpt, torchao,
AutoRound, MLX."""

import re

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.quantization.cover import Module, Scheme
from kvcalc.catalog.quantization.formats import (
    compressed_format,
    group_of,
    modelopt_format,
    quark_format,
    torchao_format,
    unknown,
)
from kvcalc.catalog.quantization.names import Choices, Names
from kvcalc.catalog.quantization.schemes import EVERYWHERE, LAYERS, fp8, names_of, skipped, uniform
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.formats import MXFP4, MXFP8, NVFP4_WEIGHT_ONLY, WeightFormat, integer

_NAME = re.compile(r"[\w.-]+")
_CLASS = re.compile(r"[A-Z]\w*\Z")  # "Linear": a class of modules, not a name


def compressed_tensors(keys: Keys) -> Scheme:
    """compressed-tensors: `config_groups`, each with targets (names, "re:" patterns, classes), less `ignore`.

    Raises:
        KvcalcError: no config_groups, or a format that kvcalc does not know.
    """
    whole = keys.text("format")
    if whole in ("marlin-24", "sparse-24-bitmask", "sparse-bitmask"):
        raise unknown("format", whole)
    ignored = names_of(keys, "ignore")
    skip = Names(ignored, "regexes", "ignore")
    # The library stores a packed weight's shape as two int64; writers that give no version store two int32.
    shape_bits = 128 if keys.has("version") else 64
    chosen: list[tuple[Names, bool, WeightFormat]] = []
    groups = keys.child("config_groups")
    for name in groups.names() if groups else ():
        assert groups is not None
        group = groups.child(name)
        weights = group.child("weights") if group else None
        if group is None or weights is None:
            continue  # a group of activations or of the cache alone
        form = compressed_format(weights, group.child("input_activations"), group.text("format") or whole, shape_bits)
        targets = names_of(group, "targets")
        linears = not targets or any(_CLASS.match(target) and "linear" in target.lower() for target in targets)
        chosen.append((Names([t for t in targets if not _CLASS.match(t)], "regexes", "targets"), linears, form))
    if not chosen:
        raise KvcalcError("compressed-tensors without config_groups", hint="is the quantization_config complete?")
    by_class = next((form for _, linears, form in chosen if linears), None)

    def cover(module: Module) -> WeightFormat | None:
        if not module.linear or module.path in skip:
            return None
        for names, _, form in chosen:
            if module.path in names:
                return form
        # A class covers every linear: a head too, as the library has it. Routers are no linears to engines.
        return by_class if module.usual or module.tensor.category == "head" else None

    kinds = ", ".join(dict.fromkeys(form.name for _, _, form in chosen))
    return Scheme(f"compressed-tensors {kinds}", cover)


def quark(keys: Keys) -> Scheme:
    """AMD Quark: a global spec, specs by layer pattern, less `exclude`."""
    skip = Names(names_of(keys, "exclude"), "globs", "exclude")
    layers = keys.child("layer_quant_config")
    given = ((pattern, _quark_spec(layers.child(pattern))) for pattern in layers.names()) if layers else ()
    rules = list(given)
    chosen = Choices(rules, "globs", "layer_quant_config")
    by_type = keys.child("layer_type_quant_config")
    everywhere = _quark_spec((by_type.child("Linear", "<class 'torch.nn.modules.linear.Linear'>") if by_type else None)
                             or keys.child("global_quant_config"))  # fmt: skip

    def cover(module: Module) -> WeightFormat | None:
        if not module.linear or module.path in skip:
            return None
        return chosen.of(module.path, everywhere if module.usual else None)

    kinds = dict.fromkeys(form.name for form in [everywhere, *(form for _, form in rules)] if form)
    return Scheme(f"quark {', '.join(kinds)}", cover)


def _quark_spec(spec: Keys | None) -> WeightFormat | None:
    weight = spec.raw("weight") if spec else None
    if isinstance(weight, list):  # two stages: the last is what is stored
        weight = weight[-1] if weight else None
    if spec is None or weight is None:
        return None
    return quark_format(Keys(weight, "weight"), spec.raw("input_tensors") is not None)


def modelopt(keys: Keys) -> Scheme:
    """NVIDIA ModelOpt: one algorithm with a list of excluded modules, or MIXED_PRECISION with a list of layers.

    Raises:
        KvcalcError: no quant_algo, or one that kvcalc does not know.
    """
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
    skip = skipped(keys, "modules_to_not_convert")
    said = keys.raw("quant_type")
    if isinstance(said, str):
        form = torchao_format(said.replace("_", ""), keys.child("quant_type_kwargs") or Keys({}))
        return uniform(f"torchao {said}", form, skip, EVERYWHERE) if form else Scheme("none", lambda _: None)
    outer = keys.child("quant_type")
    default = (outer.child("default") if outer else None) or Keys({})
    kind = default.text("_type") or ""
    data = default.child("_data") or Keys({})
    if not kind.removesuffix("Config").lower().endswith(("fqnto", "modulefqnto")):
        form = torchao_format(kind, data)
        return uniform(f"torchao {kind}", form, skip, EVERYWHERE) if form else Scheme("none", lambda _: None)
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


def auto_round(keys: Keys) -> Scheme:
    """AutoRound: integers in GPTQ's or AWQ's packing, MXFP or NVFP4, with changes by module in `extra_config`."""
    extra = keys.child("extra_config") or Keys({})
    default = _auto_round_format(keys, keys)
    changes = [(name, _auto_round_format(change, keys)) for name in extra.names() if (change := extra.child(name))]
    plain = Choices([rule for rule in changes if _NAME.fullmatch(rule[0])], "modules", "extra_config")
    patterns = Choices(
        [("re:" + name, form) for name, form in changes if not _NAME.fullmatch(name)], "regexes", "extra_config"
    )
    listed = keys.raw("block_name_to_quantize", "to_quant_block_names")
    blocks = listed.split(",") if isinstance(listed, str) else names_of(keys, "block_name_to_quantize")
    only = Names([block.strip() for block in blocks], "modules", "block_name_to_quantize") if blocks else None

    def cover(module: Module) -> WeightFormat | None:
        if not module.linear:
            return None
        inside = module.usual and module.place in LAYERS and (only is None or module.path in only)
        return plain.of(module.path, patterns.of(module.path, default if inside else None))

    return Scheme(f"auto-round {default.name if default else 'by module'}", cover)


def _auto_round_format(change: Keys, keys: Keys) -> WeightFormat | None:
    bits = change.integer("bits", most=32) or keys.integer("bits", default=4, most=32) or 4
    if bits >= 16:
        return None
    group = group_of(change) if change.given("group_size") else group_of(keys, 128)
    kind = change.text("data_type") or keys.text("data_type", default="int") or "int"
    if kind.startswith("mx_fp"):
        return replace(MXFP4 if bits == 4 else MXFP8, group=group or 32)
    if kind.startswith("nv_fp"):
        return replace(NVFP4_WEIGHT_ONLY, group=group or 16)
    if kind != "int":
        raise unknown("data_type", kind)
    packing = keys.text("packing_format", default="auto_round:auto_gptq") or ""
    return integer(bits, group, zero_bits=bits, bits_per_input=0 if "awq" in packing else 32)


def mlx(keys: Keys) -> Scheme:
    """MLX's `quantization`: every linear and the embedding whose width is whole groups; changes by module path."""
    default = _mlx_format(keys, keys)
    changes: dict[str, WeightFormat | None] = {}
    for name in keys.names():
        value = keys.raw(name)
        if "." in name or isinstance(value, dict | bool):
            changes[name] = (
                None if value is False else default if value is True else _mlx_format(Keys(value, name), keys)
            )
    chosen = Choices(changes.items(), "modules", "quantization")

    def cover(module: Module) -> WeightFormat | None:
        matrix = module.linear or (module.tensor.category == "embedding" and len(module.tensor.shape) == 2)
        if not matrix or module.place == "tower":
            return None
        whole_groups = module.tensor.shape[1] % (default.group or 1) == 0
        return chosen.of(module.path, default if whole_groups else None)

    return Scheme(f"mlx {default.name}", cover)


def _mlx_format(keys: Keys, outer: Keys) -> WeightFormat:
    mode = keys.text("mode") or outer.text("mode", default="affine") or "affine"
    if mode in ("mxfp4", "mxfp8", "nvfp4"):
        forms = {"mxfp4": MXFP4, "mxfp8": MXFP8, "nvfp4": NVFP4_WEIGHT_ONLY}
        return replace(forms[mode], compute="bf16", bits_per_tensor=0)
    if mode != "affine":
        raise unknown("mode", mode)
    bits = keys.integer("bits", default=outer.integer("bits", default=4, most=8), most=8) or 4
    group = group_of(keys) or group_of(outer, 64)
    return integer(bits, group, zero_bits=16)  # a 16-bit scale and a 16-bit offset per group
