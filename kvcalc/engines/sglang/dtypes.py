"""The cache's type: as engines on PyTorch choose it; states in float32 where nothing is said."""

from kvcalc.engines.pages.dtypes import plain_state_dtype as state_dtype
from kvcalc.engines.pages.dtypes import torch_cache_dtype as cache_dtype

__all__ = ["cache_dtype", "state_dtype"]
