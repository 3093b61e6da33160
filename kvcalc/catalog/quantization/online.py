"""`--quantization` and `--dtype`: the same model stored otherwise than its checkpoint."""

from typing import Any

from kvcalc.catalog.names import did_you_mean
from kvcalc.catalog.quantization.cover import Module, Scheme, cover
from kvcalc.catalog.quantization.gguf_recipe import Recipe, find_recipe, recipe
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.formats import (
    DTYPE_ALIASES,
    FP8_BLOCK,
    FP8_CHANNEL,
    FP8_TENSOR,
    INT8_CHANNEL,
    MXFP4,
    MXFP8,
    NVFP4,
    PLAIN,
    WeightFormat,
    integer,
)
from kvcalc.specs.model import ModelSpec

# AWQ packs a 4-bit zero point beside each 16-bit scale of 128 inputs; GPTQ the group of every input too (g_idx, int32).
AWQ = integer(4, 128, zero_bits=4)
GPTQ = integer(4, 128, zero_bits=4, bits_per_input=32)
NF4 = WeightFormat(
    name="nf4", compute="bf16", bits=4, scale="group", scale_bits=32, group=64, bits_per_tensor=512
)  # as bitsandbytes quantizes while loading: an fp32 scale for 64 elements, and a table of 16 values
# What the name of a scheme means where no checkpoint says more: the usual choice of the tools that write it.
FORMATS = {
    "fp8": FP8_TENSOR, "fp8_per_tensor": FP8_TENSOR, "fp8_per_channel": FP8_CHANNEL, "fp8_per_block": FP8_BLOCK,
    "int8": INT8_CHANNEL, "w8a8": INT8_CHANNEL, "awq": AWQ, "gptq": GPTQ, "awq_marlin": AWQ, "gptq_marlin": GPTQ,
    "int4": integer(4, 128), "w4a16": integer(4, 128), "w8a16": integer(8, None),
    "int8_per_channel_weight_only": integer(8, None),
    "nvfp4": NVFP4, "modelopt_fp4": NVFP4, "mxfp4": MXFP4, "mxfp8": MXFP8,
    "bitsandbytes": NF4, "nf4": NF4,
}  # fmt: skip
# Words for how a checkpoint was written. They say nothing that the checkpoint does not, and choose no format for one
# that is not quantized.
DECLARED = {"compressed_tensors", "auto_round", "inc", "modelopt", "modelopt_mixed", "quark", "torchao", "fbgemm_fp8"}
# Widths that are no GGUF type, and what llama.cpp has of so many bits: Q4_K_M is what `-hf` takes where no type is said
# (tools/server/README.md), Q8_0 the one plain type of eight.
GGUF_OF_BITS = {
    "int4": "Q4_K_M", "w4a16": "Q4_K_M", "w8a16": "Q8_0", "int8_per_channel_weight_only": "Q8_0",
}  # fmt: skip
LAYERS_ONLY = {"awq", "gptq", "awq_marlin", "gptq_marlin", "int4", "w4a16", "w8a16"}


def requantize(
    model: ModelSpec, name: str, kinds: tuple[str, ...] = ("scheme",), engine: str = "vllm", mtp: bool = False
) -> ModelSpec:
    """The model with its linears in another format: embeddings, head, norms, routers and towers stay as they are.

    A GGUF type's name (q4_k_m) is mixed as llama.cpp mixes it.

    Args:
        model: any; of one that its checkpoint quantizes already, narrower builds exist where that is fp8.
        name: fp8, int8, awq, gptq, nvfp4, mxfp4, bitsandbytes ..., in vLLM's spelling, or a GGUF type.
        kinds: what the engine knows by such a name, "scheme" or "gguf"; a name that both have is the scheme's.
        engine: its name, to say in an error.
        mtp: a GGUF has the multi-token-prediction layers, which most leave out.

    Raises:
        KvcalcError: an unknown scheme, one of another engine, or a checkpoint that is quantized otherwise.
    """
    key = name.lower().replace("-", "_")
    if "scheme" not in kinds or (key not in FORMATS and find_recipe(name) is not None):
        return _as_gguf(model, name, kinds, engine, mtp)
    if key in DECLARED:
        return _declared(model, name)
    if key not in FORMATS:
        raise KvcalcError(
            f"unknown quantization {name[:40]!r}",
            hint=did_you_mean(key, FORMATS, f"one of {', '.join(sorted(FORMATS))}"),
        )
    form = FORMATS[key]
    why = f"the checkpoint is not quantized: as {form.name} the linears of its layers, not embedding, head and routers"
    if model.quantization is not None:
        if _stores(model, form, key):
            return _repeats(model, name)
        if not _narrower_exist(model, form):
            raise KvcalcError(
                f"{model.name} is already quantized ({model.quantization})",
                hint="leave out --quantization, or name the unquantized checkpoint",
            )
        why = f"a build of the dequantized checkpoint ({model.quantization}): as {form.name} the linears of its layers"
    places = ("layer",) if key in LAYERS_ONLY else ("layer", "outside")

    plain = PLAIN[model.dtype]

    def choose(module: Module) -> WeightFormat | None:
        if module.usual and module.place in places:
            return form
        return None if module.tensor.format in PLAIN.values() else plain

    taken = Assumption(name="quantization", value=key, why=why)
    return _otherwise(cover(model, Scheme(key, choose)), quantization=key, assumptions=(*model.assumptions, taken))


def _as_gguf(model: ModelSpec, name: str, kinds: tuple[str, ...], engine: str, mtp: bool) -> ModelSpec:
    """The model as a GGUF of a type; a GGUF's own type changes nothing."""
    made = _gguf_type(name)
    if "gguf" not in kinds:
        raise KvcalcError(
            f"--quantization {name[:40]} is a GGUF type, and the engine is {engine}", hint="add --engine llamacpp"
        )
    if model.quantization == f"gguf {made.name}":
        return _repeats(model, name)
    if (model.quantization or "").startswith("gguf"):
        raise KvcalcError(
            f"{model.name} is a GGUF already ({model.quantization})",
            hint="leave out --quantization, or name the model that it was made of",
        )
    from kvcalc.catalog.quantization.gguf_mix import mix

    mixed = mix(model, made, mtp)
    if find_recipe(name) is not None:
        return mixed
    why = f"{name} is no GGUF type: the usual one of so many bits"
    taken = Assumption(name="quantization", value=made.name, why=why)
    return replace(mixed, assumptions=(*mixed.assumptions, taken))


def _gguf_type(name: str) -> Recipe:
    """The type that a name means in llama.cpp: its own, or the usual one of so many bits."""
    key = name.lower().replace("-", "_")
    if key in FORMATS and find_recipe(name) is None and key not in GGUF_OF_BITS:
        raise KvcalcError(
            f"llama.cpp reads GGUF files, and {name[:40]} is no GGUF type",
            hint="q4_k_m is the usual one of four bits, q8_0 of eight",
        )
    return recipe(GGUF_OF_BITS.get(key, name))


def _stores(model: ModelSpec, form: WeightFormat, key: str) -> bool:
    """Does the checkpoint store its linears in this format already?"""
    stored = {t.format.name.split("-")[0] for group in model.groups for t in group.tensors}
    return form.name.split("-")[0] in stored or key.split("_")[0] in (model.quantization or "")


def _narrower_exist(model: ModelSpec, form: WeightFormat) -> bool:
    """Models that are published in fp8 alone have builds in fewer bits: they are dequantized and quantized anew."""
    formats = {t.format for group in model.groups for t in group.tensors} - set(PLAIN.values())
    return bool(formats) and all(one.compute == "fp8" and form.bits < one.bits for one in formats)


def _repeats(model: ModelSpec, name: str) -> ModelSpec:
    """The checkpoint says the same: nothing changes, and that is said."""
    why = f"repeats what the checkpoint declares ({model.quantization}): nothing changes"
    return replace(model, assumptions=(*model.assumptions, Assumption(name="quantization", value=name, why=why)))


def _declared(model: ModelSpec, name: str) -> ModelSpec:
    if model.quantization is not None:
        return _repeats(model, name)
    hint = "name the checkpoint that is quantized, or a scheme to store this one in: fp8, nvfp4, awq"
    raise KvcalcError(f"{model.name} declares no quantization for {name[:40]} to read", hint=hint)


def redtype(model: ModelSpec, name: str) -> ModelSpec:
    """The model in another dtype, as `--dtype` asks: unquantized tensors and activations.

    Raises:
        KvcalcError: not a dtype of weights.
    """
    if name == "auto":
        return model
    dtype = DTYPE_ALIASES.get(name, name)
    if dtype not in PLAIN:
        raise KvcalcError(f"--dtype: {name[:40]!r} is not a dtype of weights", hint=f"auto, {', '.join(PLAIN)}")
    if dtype == model.dtype:
        return model
    plain, wanted = PLAIN[model.dtype], PLAIN[dtype]
    changed = cover(model, Scheme(dtype, lambda module: wanted if module.tensor.format == plain else None))
    taken = Assumption(name="dtype", value=dtype, why=f"asked for; the checkpoint is {model.dtype}")
    return _otherwise(changed, dtype=dtype, assumptions=(*model.assumptions, taken))


def _otherwise(model: ModelSpec, **changes: Any) -> ModelSpec:
    """What the file holds no longer says how large the weights are."""
    return replace(model, weight_file_bytes=None, file_parameters=None, **changes)
