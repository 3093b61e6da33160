"""Bytes as stored, against published file sizes and the formats' published layouts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.counting.weights import (
    counted_weight_bytes,
    matrix_bytes,
    mtp_weight_bytes,
    stored_bytes,
    weight_bytes,
)
from kvcalc.specs.base import replace
from kvcalc.specs.formats import BF16, FP8_BLOCK, FP8_CHANNEL, FP8_TENSOR, MXFP4, MXFP8, NVFP4, integer
from kvcalc.specs.model import Tensor

SIDES = st.integers(1, 40).map(lambda n: n * 128)


@given(SIDES, SIDES)
def test_bytes_per_element_of_the_formats(outputs: int, inputs: int) -> None:
    """DeepSeek-V3's fp8 blocks, OCP's MX formats, NVIDIA's NVFP4, GPTQ's and AWQ's packing."""
    shape, elements = (outputs, inputs), outputs * inputs
    assert matrix_bytes(shape, BF16) == 2 * elements
    assert matrix_bytes(shape, FP8_BLOCK) == elements + 4 * elements // 128**2
    assert matrix_bytes(shape, FP8_TENSOR) == elements + 4
    assert matrix_bytes(shape, FP8_CHANNEL) == elements + 4 * outputs
    assert matrix_bytes(shape, MXFP8) == elements + elements // 32
    assert matrix_bytes(shape, MXFP4) == elements // 2 + elements // 32
    assert matrix_bytes(shape, NVFP4) == elements // 2 + elements // 16 + 8
    assert matrix_bytes(shape, integer(4, 128)) == elements // 2 + 2 * elements // 128
    awq = integer(4, 128, zero_bits=4)
    assert matrix_bytes(shape, awq) == elements // 2 + 2 * elements // 128 + elements // 256
    gptq = integer(4, 128, zero_bits=4, bits_per_input=32)
    assert matrix_bytes(shape, gptq) == matrix_bytes(shape, awq) + 4 * inputs


@given(st.integers(1, 500), st.integers(1, 500), st.integers(1, 9))
def test_copies_and_halves(outputs: int, inputs: int, copies: int) -> None:
    """Copies add up, leading dimensions are copies, and what is split in two is no smaller than the whole."""
    one = matrix_bytes((outputs, inputs), FP8_BLOCK)
    tensor = Tensor(name="w", shape=(outputs, inputs), category="experts", copies=copies, format=FP8_BLOCK)
    assert stored_bytes(tensor) == copies * one
    assert matrix_bytes((copies, outputs, inputs), FP8_BLOCK) == copies * one
    assert 2 * matrix_bytes((outputs, -(-inputs // 2)), FP8_BLOCK) >= one


def test_a_vector_has_no_scales() -> None:
    assert matrix_bytes((4096,), BF16) == 8192


# Sizes that others publish, of models with cards. gpt-oss-120b: 114,661,785,600 expert weights in 4.25 bits and the
# rest in bf16. Llama 3 8B: 8,030,261,248 parameters in bf16, the total_size of its index on the Hub.
@pytest.mark.parametrize(("name", "size"), [("gpt-oss-120b", 65_248_815_744), ("llama-3-8b", 16_060_522_496)])
def test_published_sizes(name: str, size: int) -> None:
    model = load_model(name)
    assert weight_bytes(model) == counted_weight_bytes(model) == size
    assert mtp_weight_bytes(model) == 0


def test_the_headers_of_the_file_win() -> None:
    model = replace(load_model("llama-3-8b"), weight_file_bytes=7)
    assert weight_bytes(model) == 7
    assert counted_weight_bytes(model) == 16_060_522_496
