"""llama.cpp sets the types of keys and of values apart, f16 where nothing is said.

Source: kv_cache_types in ggml-org/llama.cpp, common/arg.cpp; recurrent_type_k and recurrent_type_v are GGML_TYPE_F32 in
llama_model::create_memory, src/llama-model.cpp
"""

from kvcalc.engines.pages.dtypes import GGML, asked_names, check_kept
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import ModelSpec, Recurrent

PLAIN = ("f32", "f16", "bf16", "fp32", "fp16")
_OWN = {"fp32": "f32", "fp16": "f16"}  # as it calls them itself


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """`q8_0`, or `q8_0,f16` for keys and values apart; f16 whatever the file's tensors are.

    Raises KvcalcError for a type that llama.cpp does not keep.
    """
    return asked_dtype(deployment)


def asked_dtype(deployment: Deployment) -> str:
    """The same without a model: nothing of it matters."""
    if deployment.kv_cache_dtype == "auto":
        return "f16"
    asked = asked_names(deployment)
    kept = all(name in GGML + PLAIN for name in asked) and len(asked) <= 2
    check_kept(asked, kept, "llama.cpp", "f16, q8_0, q4_0")
    names = (DTYPE_ALIASES.get(name, name) for name in asked)
    return ",".join(_OWN.get(name, name) for name in names)


def key_value_types(deployment: Deployment) -> tuple[str, str]:
    """The types of keys and of values."""
    key, _, value = asked_dtype(deployment).partition(",")
    return key, value or key


def state_dtype(mixer: Recurrent, model: ModelSpec, deployment: Deployment) -> str:
    """Float32, whatever is asked."""
    return "fp32"
