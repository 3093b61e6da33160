"""Element types that several engines choose alike where they were not told.

Source: _get_and_verify_dtype in vllm/config/model.py ("Downcasting from float32 to float16 or bfloat16 is allowed");
kv_cache_dtype_str_to_dtype and resolve_kv_cache_dtype_string in vllm/utils/torch_utils.py; configure_kv_cache_dtype in
sglang/srt/model_executor/model_runner.py
"""

from collections.abc import Sequence

from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import ModelSpec, Recurrent

GGML = ("q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")  # blocks of 32 elements: llama.cpp's own


def engine_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The type of activations: what was asked, else the checkpoint's, float32 lowered to 16 bits as engines do."""
    asked = model.dtype if deployment.dtype == "auto" else deployment.dtype
    name = DTYPE_ALIASES.get(asked, asked)
    return "bf16" if name == "fp32" and deployment.dtype == "auto" else name


def asked_names(deployment: Deployment) -> list[str]:
    """`--kv-cache-dtype` as it was typed: keys and values apart where it has a comma."""
    return [name.strip() for name in deployment.kv_cache_dtype.split(",")]


def torch_cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's type in engines on PyTorch: what was asked, else what the checkpoint says of its cache, else the
    type of activations.

    Raises KvcalcError for a type that they do not keep.
    """
    if deployment.kv_cache_dtype == "auto":
        return model.kv_cache_dtype or engine_dtype(model, deployment)
    asked = asked_names(deployment)
    kept = len(asked) == 1 and asked[0] not in GGML
    check_kept(asked, kept, deployment.engine, "auto, bf16, fp16, fp8, nvfp4")
    return DTYPE_ALIASES.get(asked[0], asked[0])


def plain_state_dtype(mixer: Recurrent, model: ModelSpec, deployment: Deployment) -> str:
    """The state's type: what was asked, else what the config says, else float32."""
    asked = deployment.mamba_ssm_cache_dtype
    return asked if asked != "auto" else mixer.state_dtype or model.state_dtype or "fp32"


def check_kept(asked: Sequence[str], kept: bool, engine: str, known: str) -> None:
    """Raise KvcalcError where an engine keeps no cache of this type."""
    if not kept:
        raise KvcalcError(f"{engine} keeps no cache in {','.join(asked)[:40]!r}", hint=f"it has {known} and others")
