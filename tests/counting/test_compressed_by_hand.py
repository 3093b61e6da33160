"""DeepSeek-V4's compressed attention and tied heads by hand."""

import pytest
from engines.models import DEEPSEEK_V4_FLASH

from kvcalc.catalog.models import load_model
from kvcalc.counting.cache import cache_profile
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Step
from kvcalc.specs.deployment import Layout

VECTOR, KEY = 512 * 2, 128 * 2  # bytes of a vector and of an index key in 16 bits


def test_vectors_by_their_ratio_beside_a_window() -> None:
    """43 windows of 128; one vector and one key for four tokens in 21 layers, one vector for 128 in 20."""
    found = cache_profile(DEEPSEEK_V4_FLASH)
    assert found.bytes_per_token == 21 * (VECTOR + KEY) / 4 + 20 * VECTOR / 128
    assert found.stored(128) - found.fixed_bytes == 128 * (43 * VECTOR + found.bytes_per_token)
    assert found.stored(1128) - found.stored(1000) == 128 * found.bytes_per_token
    # The short ratio's attention reads 512 chosen vectors of its history, and every key.
    context = 8192
    read = 43 * 128 * VECTOR + 21 * (512 * VECTOR + context / 4 * KEY) + 20 * context / 128 * VECTOR
    assert found.read(context) - found.fixed_bytes == read


@pytest.mark.parametrize("tp", [1, 2])
def test_a_tied_table_is_the_head_too(tp: int) -> None:
    """Gemma-2B: 256,000 rows of 2,048 in 16 bits, for three decoding sequences and the last row of a prompt."""
    step = Step(decode=3, context=10, prompts=1, tokens=50)
    found = step_operators(load_model("gemma-2b"), Layout(tensor_parallel_size=tp), step, "bf16")
    head = next(one for one in found if one.name == "head")
    assert (head.rows, head.flops, head.weight_bytes) == (4, 2 * 4 * 256_000 * 2048 / tp, 2 * 256_000 * 2048 / tp)
