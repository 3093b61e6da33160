"""The cache's type is the model's own, or whatever was asked for.

Source: a judgement: the lessons name a type where they use one, and a cache is kept in the model's own
"""

from kvcalc.engines.pages.dtypes import asked_names
from kvcalc.engines.pages.dtypes import plain_state_dtype as state_dtype
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.formats import DTYPE_ALIASES
from kvcalc.specs.model import ModelSpec

__all__ = ["cache_dtype", "state_dtype"]


def cache_dtype(model: ModelSpec, deployment: Deployment) -> str:
    """What was asked, else what the checkpoint says of its cache, else the model's own."""
    if deployment.kv_cache_dtype == "auto":
        asked = model.dtype if deployment.dtype == "auto" else deployment.dtype
        return model.kv_cache_dtype or DTYPE_ALIASES.get(asked, asked)
    return ",".join(DTYPE_ALIASES.get(name, name) for name in asked_names(deployment))
