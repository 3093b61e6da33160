"""The cache's type: as engines on PyTorch choose it."""

from kvcalc.engines.pages.dtypes import torch_cache_dtype as cache_dtype

__all__ = ["cache_dtype"]
