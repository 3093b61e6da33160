"""What a checkpoint says of the element type of its cache, in the words of the library that wrote it."""

from typing import Any

import pytest

from kvcalc.catalog.config.keys import Keys
from kvcalc.catalog.quantization.checkpoint import declared_cache_dtype


@pytest.mark.parametrize(
    ("quant", "dtype"),
    [
        ({"kv_cache_scheme": {"num_bits": 8, "type": "float", "dynamic": False}}, "fp8"),
        ({"kv_cache_scheme": {"num_bits": 4, "type": "float"}}, "nvfp4"),
        ({"kv_cache_scheme": "FP8"}, "fp8"),
        ({"kv_cache_quant_algo": "FP8"}, "fp8"),
        ({"kv_cache_quant_algo": "NVFP4"}, "nvfp4"),
        ({"quantization": {"kv_cache_quant_algo": "FP8"}}, "fp8"),
        ({"kv_cache_quant_config": {"*k_proj": {"output_tensors": {"dtype": "fp8_e4m3"}}}}, "fp8"),
        ({"kv_cache_scheme": None, "kv_cache_quant_algo": None}, None),
        ({}, None),
    ],
)
def test_what_a_checkpoint_says_of_its_cache(quant: dict[str, Any], dtype: str | None) -> None:
    assert declared_cache_dtype(Keys(quant)) == dtype
