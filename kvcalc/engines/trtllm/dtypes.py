"""The cache's type: as engines on PyTorch choose it; states as vLLM keeps them."""

from kvcalc.engines.pages.dtypes import torch_cache_dtype as cache_dtype
from kvcalc.engines.vllm.dtypes import state_dtype

__all__ = ["cache_dtype", "state_dtype"]
