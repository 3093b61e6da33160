"""Bounds: against arithmetic on configs and data sheets."""

import pytest
from counting.steps import decode_step

from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.passes import step_operators
from kvcalc.counting.work import Operator, Step
from kvcalc.errors import KvcalcError
from kvcalc.specs.deployment import Layout
from kvcalc.timing.peaks import arithmetic, joining_link
from kvcalc.timing.roofline import bound, operator_bound, operator_bound_total, operator_limit

H100 = load_gpu("h100-sxm")  # 3.35 TB/s, 989 TFLOP/s bf16
LLAMA = load_model("llama-3-8b")
MATRICES = 7_504_658_432  # parameters of Llama-3-8B that a step multiplies: all but the embedding and the norms


def test_the_bound_counts_weights_cache_and_flops() -> None:
    found = bound(decode_step(LLAMA, batch=1, context=2048), H100)
    assert found.memory_time_s == pytest.approx((2 * MATRICES + 2048 * 131_072) / 3.35e12)
    assert found.compute_time_s == pytest.approx((2 * MATRICES + 4 * 32 * 32 * 128 * 2048) / 989e12)
    assert (found.time_s, found.limit) == (found.memory_time_s, "memory")


@pytest.mark.parametrize("batch, context, milliseconds", [(1, 2048, 4.56), (512, 128, 10.88)])
def test_the_operator_bound_of_a_decode_step(batch: int, context: int, milliseconds: float) -> None:
    # Worked by hand from the config: matrices, cache and activations one after the other; ours counts rotary too.
    found = operator_bound_total(decode_step(LLAMA, batch=batch, context=context), H100)
    assert found * 1e3 == pytest.approx(milliseconds, rel=0.015)


def test_the_operator_bound_of_a_prefill() -> None:
    found = operator_bound_total(step_operators(LLAMA, Layout(), Step(prompts=1, tokens=32_768), "bf16"), H100)
    assert found == pytest.approx(0.782, rel=0.015)


def test_operators_in_turn_take_at_least_the_bound_of_their_sum() -> None:
    for batch in (1, 32, 300, 2000):
        operators = decode_step(LLAMA, batch=batch, context=700)
        assert operator_bound_total(operators, H100) >= bound(operators, H100).time_s


def test_a_ring_sends_almost_two_messages() -> None:
    operators = decode_step(LLAMA, Layout(tensor_parallel_size=8), batch=1000, context=1)
    sums = next(one for one in operators if one.kind == "all_reduce")
    assert operator_bound(sums, H100) == pytest.approx(64 * 2 * 7 / 8 * 1000 * 4096 * 2 / 450e9)
    assert operator_limit(sums, H100) == "link"


def test_a_group_that_leaves_the_node_uses_the_network() -> None:
    assert joining_link(H100, 8).name == "nvlink"
    assert joining_link(H100, 16).name == "network"
    assert joining_link(H100, 8, gpus_per_node=4).name == "network"
    with pytest.raises(KvcalcError, match="no link that joins 2 GPUs"):
        joining_link(load_gpu("apple-m3-max"), 2)


def test_missing_arithmetic_is_done_in_the_next_wider_type() -> None:
    assert arithmetic(load_gpu("a100-80g-sxm"), "fp8") == ("bf16", 312e12)
    assert arithmetic(H100, "nvfp4") == ("fp8", 1979e12)
    assert arithmetic(load_gpu("t4"), "bf16") == ("fp16", 65e12)
    with pytest.raises(KvcalcError, match="no peak for int2"):
        arithmetic(H100, "int2")


def test_absent_work_takes_no_time() -> None:
    assert operator_bound(Operator("nothing", "gemm", 3), H100) == 0
