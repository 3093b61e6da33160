"""Which element types an engine chooses where it was not told."""

from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import ModelSpec

GGML = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")  # blocks of 32 elements: llama.cpp's own
PLAIN = ("f32", "f16", "bf16", "fp32", "fp16")


def engine_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The type of activations: what was asked, else the checkpoint's, float32 lowered to 16 bits as engines do."""
    asked = model.dtype if deployment.dtype == "auto" else deployment.dtype
    name = DTYPE_ALIASES.get(asked, asked)
    return "bf16" if name == "fp32" and deployment.dtype == "auto" and deployment.engine != "ideal" else name


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's type: what was asked, else what the checkpoint says of its cache, else the model's own.

    Raises KvcalcError for a type that the engine does not keep.
    """
    if deployment.kv_cache_dtype == "auto":
        return model.kv_cache_dtype or engine_dtype(model, deployment)
    return asked_dtype(deployment)


def asked_dtype(deployment: Deployment) -> str:
    """`--kv-cache-dtype` by kvcalc's names; llama.cpp's `q8_0,f16` are keys and values apart."""
    asked = [name.strip() for name in deployment.kv_cache_dtype.split(",")]
    if deployment.engine == "llamacpp":
        _check(asked, all(name in GGML + PLAIN for name in asked) and len(asked) <= 2, "llama.cpp", "f16, q8_0, q4_0")
    elif deployment.engine != "ideal":
        kept = len(asked) == 1 and asked[0] not in GGML
        _check(asked, kept, deployment.engine, "auto, bf16, fp16, fp8, nvfp4")
    return ",".join(DTYPE_ALIASES.get(name, name) for name in asked)


def _check(asked: list[str], kept: bool, engine: str, known: str) -> None:
    if not kept:
        raise KvcalcError(f"{engine} keeps no cache in {','.join(asked)[:40]!r}", hint=f"it has {known} and others")
