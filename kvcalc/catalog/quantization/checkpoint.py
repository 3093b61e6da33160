"""How a checkpoint stores its weights: `quantization_config`, `hf_quant_config.json`, MLX's `quantization`.

The scheme says a format for each module; layers that differ in it become groups of their own. What the checkpoint
says of its cache is kept too: engines honour it when asked for `auto`.
"""

from collections.abc import Iterator, Mapping

from kvcalc.catalog.config.keys import Keys, shown
from kvcalc.catalog.quantization.cover import Scheme, cover, in_dtype
from kvcalc.specs.base import replace
from kvcalc.specs.formats import BF16
from kvcalc.specs.model import Mixer, ModelSpec

Json = Mapping[str, object]
NESTED = ("text_config", "llm_config", "language_config", "language_model_config", "thinker_config")


def apply_quantization(model: ModelSpec, config: Json, hf_quant_config: Json | None = None) -> ModelSpec:
    """The model with each tensor in the format that its checkpoint stores.

    Args:
        model: from the config's shapes; tensors in the model's dtype.
        config: the parsed config.json.
        hf_quant_config: the parsed hf_quant_config.json (ModelOpt), if there is one.

    Raises:
        KvcalcError: an unknown scheme or algorithm (named), or a value of the wrong type.
    """
    plain = in_dtype(_as_written(model, config), model.dtype)
    keys = find_quantization(config, hf_quant_config)
    if keys is None:
        return plain
    from kvcalc.catalog.quantization.methods import scheme_of  # most models have no use for it

    scheme = scheme_of(keys)
    said = declared_cache_dtype(keys) or (declared_cache_dtype(Keys(hf_quant_config)) if hf_quant_config else None)
    covered = cover(plain, scheme)
    return replace(covered, quantization=scheme.title, kv_cache_dtype=said or model.kv_cache_dtype)


def find_quantization(config: Json, hf_quant_config: Json | None) -> Keys | None:
    """Where the checkpoint says its scheme; ModelOpt's own file where the config has none."""
    places = [config, *(inner for name in NESTED if isinstance(inner := config.get(name), Mapping))]
    for place in places:
        for name in ("quantization_config", "compression_config", "quantization"):
            if isinstance(place.get(name), Mapping) and place[name]:
                # DeepSeek-V4 says the dtype of its experts beside the scheme, V4.1 within it.
                beside = {"expert_dtype": place["expert_dtype"]} if place.get("expert_dtype") is not None else {}
                return Keys({**beside, **place[name]}, name)
            if place.get(name) not in (None, {}, [], "", "none"):
                return Keys(place[name], name)  # not an object: an error that says so
    return Keys(hf_quant_config, "hf_quant_config") if hf_quant_config else None


def declared_cache_dtype(keys: Keys) -> str | None:
    """What the checkpoint says of its cache: kv_cache_scheme, kv_cache_quant_algo. None: nothing.

    >>> declared_cache_dtype(Keys({"kv_cache_scheme": {"num_bits": 8, "type": "float"}}))
    'fp8'
    """
    inner = keys.child("quantization") or keys
    said = inner.raw("kv_cache_scheme") or inner.raw("kv_cache_quant_algo")
    if isinstance(said, Mapping):
        bits, kind = said.get("num_bits"), said.get("type")
        known = {("8", "float"): "fp8", ("4", "float"): "nvfp4", ("8", "int"): "int8"}
        return known.get((shown(bits), kind)) if isinstance(kind, str) else None
    if isinstance(said, str):
        return {"fp8": "fp8", "nvfp4": "nvfp4", "int8": "int8"}.get(said.lower())
    quark = keys.child("kv_cache_quant_config") if isinstance(keys.raw("kv_cache_quant_config"), Mapping) else None
    for name in quark.names() if quark else ():
        tensors = quark.child(name) if quark else None
        spec = tensors.child("output_tensors") if tensors else None
        if spec is not None and str(spec.raw("dtype")).startswith("fp8"):
            return "fp8"
    return None


def _mixers(model: ModelSpec) -> Iterator[Mixer]:
    return (mixer for group in model.groups for mixer in group.mixers)


def _as_written(model: ModelSpec, config: Json) -> ModelSpec:
    """Decays of gated delta nets (`A_log`) in the model's dtype where a release of transformers wrote the checkpoint.

    Development versions kept them in fp32 where the state is. Published bytes show both: Qwen3.5-122B (4.57.0.dev0)
    has them in fp32, Qwen3.6-27B and 35B have not.
    """
    version = config.get("transformers_version")
    deltas = any(mixer.kind == "recurrent" and mixer.family == "gated_delta_net" for mixer in _mixers(model))
    if not deltas or not isinstance(version, str) or ".dev" in version:
        return model
    return cover(model, Scheme("", lambda module: BF16 if module.path.endswith(".linear_attn.A_log") else None))
