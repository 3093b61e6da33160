"""Which element types an engine chooses where it was not told."""

from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import ModelSpec


def engine_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The type of activations: what was asked, else the checkpoint's, float32 lowered to 16 bits as engines do."""
    asked = model.dtype if deployment.dtype == "auto" else deployment.dtype
    name = DTYPE_ALIASES.get(asked, asked)
    return "bf16" if name == "fp32" and deployment.dtype == "auto" and deployment.engine != "ideal" else name


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """The cache's type: what was asked, else what the checkpoint says of its cache, else the model's own."""
    if deployment.kv_cache_dtype != "auto":
        return DTYPE_ALIASES.get(deployment.kv_cache_dtype, deployment.kv_cache_dtype)
    return model.kv_cache_dtype or engine_dtype(model, deployment)
