"""Serving, profiles and calibration at round constants: the docstrings' formulas worked out by hand."""

from collections.abc import Callable

import pytest
from engines.models import DEEPSEEK_V4_FLASH

from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
from kvcalc.specs.base import replace
from kvcalc.specs.calibration import Calibration
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import LayerGroup, Tensor
from kvcalc.specs.versions import parse_version, release
from kvcalc.timing.chunks import chunks
from kvcalc.timing.engine_profiles import Profile, choose
from kvcalc.timing.estimate import Estimate, KernelSums, busy_prompt_time, engine_time, prompt_time, step_time
from kvcalc.timing.lesson import attention_flops, lesson_terms
from kvcalc.timing.machine import Machine
from kvcalc.timing.passes import Pass
from kvcalc.timing.prompts import Requests, busy_prompt
from kvcalc.timing.replica import Replica
from kvcalc.timing.serving import (
    Steady,
    beyond_capacity,
    closed_loop_tpot,
    first_token,
    hastened,
    polling,
    prefills_seen,
    static_batch_time,
    steady_state,
)

PROFILE = Profile(
    "x", "x", step_s=1.0, moe_step_s=2.0, sequence_s=0.5, layer_s=0.25, kernel_factor=0.5, launch_factor=4.0,
    link_factor=3.0, prompt_factor=2.0, busy_factor=10.0, front_end_alone_s=0.01, front_end_s=0.03, sequences_most=20,
    queue_base_equal=1.5, queue_slope_equal=0.5, seen_base_equal=2.0, seen_slope_equal=0.25,
)  # fmt: skip
SUMS = KernelSums(latency_s=1.0, work_s=10.0, head_s=100.0, link_latency_s=0.5, link_work_s=20.0, layers=4, routed=1)
# Half of 4 launches + work + head + three times the links' 4 · 0.5 + 20.
KERNELS_S = 0.5 * (4 + 10 + 100 + 3 * (2 + 20))


def test_an_engines_factors_multiply_what_they_say() -> None:
    assert SUMS.total_s(PROFILE) == KERNELS_S
    assert engine_time(PROFILE, 6, 4, 1) == 1 + 0.25 * 4 + 2 + 0.5 * 6
    assert engine_time(PROFILE, 100, 4, 0) == 1 + 0.25 * 4 + 0.5 * 20  # the host's work for more hides behind the step
    assert step_time(SUMS, PROFILE, 6) == KERNELS_S + 7
    assert prompt_time(SUMS, PROFILE) == 2 * KERNELS_S
    # Launches hide behind other work, and a prompt in a busy engine has no head of its own.
    assert busy_prompt_time(SUMS, PROFILE) == 10 * 0.5 * (10 + 3 * 20)


def test_sums_add_and_divide_times_and_keep_layers() -> None:
    twice = SUMS + SUMS
    assert (twice.work_s, twice.link_latency_s, twice.layers, twice.routed) == (20, 1, 4, 1)
    assert twice / 2 == SUMS
    assert (twice - SUMS).total_s(PROFILE) == KERNELS_S


def test_a_calibration_multiplies_each_term_once(machine: Callable[..., Machine]) -> None:
    found = (
        machine()
        ._replace(profile=PROFILE)
        .calibrated(Calibration(engine="x", decode=2.0, prompt=3.0, overhead=4.0))
        .profile
    )
    assert (found.kernel_factor, found.step_s, found.layer_s, found.front_end_alone_s) == (1.0, 4.0, 1.0, 0.04)
    # A prompt's kernels are the decode's times its own factor: three times what they were, not six.
    assert found.kernel_factor * found.prompt_factor == pytest.approx(3 * 0.5 * 2.0)
    assert found.kernel_factor * found.busy_factor == pytest.approx(3 * 0.5 * 10.0)


def test_prompts_that_pass_before_an_equal_request() -> None:
    assert prefills_seen(PROFILE, 16) == 2 + 16 / 4
    assert prefills_seen(PROFILE, 3) == 2  # never more than half of a round: (3 + 1) / 2
    assert prefills_seen(PROFILE._replace(prefill_first=True), 16) == 17 / 2


def front(clients: int) -> float:
    """10 ms alone, and 20 more where all others' answers are streamed meanwhile."""
    return 0.01 + 0.02 * (clients - 1) / clients


def test_equal_requests_queue_in_lock_step() -> None:
    # 5 clients: 1.5 prompts and half of each of the four others.
    assert first_token(PROFILE, 5, 0.1) == pytest.approx(front(5) + 0.1 * 3.5)


def test_a_static_batch_steps_for_each_further_token() -> None:
    assert static_batch_time(0.02, 1.0, 51) == 2.0


def test_a_request_decodes_at_half_its_output() -> None:
    assert Requests(1000, 200, prefix_hit=300, equal=True).context == 1100
    # Of answers from 100 to 300 tokens long ones decode for longer: E[O²] / 2 E[O] = 200/2 · (1 + 1/12).
    assert Requests(1000, 200, prefix_hit=300).context == pytest.approx(1000 + 100 * 13 / 12)
    assert Requests(1000, 200, prefix_hit=300).computed == 700
    assert chunks(8192, 8192) == [(8192, 0, 1)]
    assert chunks(0, 8192, start=1000) == [(0, 1000, 1)]


def test_short_prompts_share_a_step_of_the_budget(machine: Callable[..., Machine]) -> None:
    # Eight prompts of 1,000 tokens fill 8,000: each costs an eighth of their kernels' work.
    on = Replica(load_model("llama-3-8b"), Layout(), machine(), budget=8000)
    sums = Pass(on, Step(prompts=8, tokens=1000)).sums
    assert busy_prompt(on, Requests(1000, 100)) == pytest.approx(busy_prompt_time(sums, on.machine.profile) / 8)


def test_figures_of_serving_keep_their_ranges_in_order(machine: Callable[..., Machine]) -> None:
    on = Replica(load_model("llama-3-8b"), Layout(), machine())
    found = steady_state(on, Requests(1000, 200), 16)
    step = Pass(on, Step(decode=16, context=1000 + 100 * 13 / 12)).estimate
    assert step is not None
    assert found.tpot is not None
    assert found.tpot.low / found.tpot.value == pytest.approx(step.low / step.value)
    assert found.tpot.high / found.tpot.value == pytest.approx(step.high / step.value)
    assert found.ttft_alone.low < found.ttft.low < found.ttft.value < found.ttft.high
    assert found.whole_s(200, "high") == pytest.approx(found.ttft.high + 199 * found.tpot.high)


def test_the_last_profile_that_began_is_taken() -> None:
    known = (
        Profile("old", "e", since="0.9"), Profile("new", "e", since="0.10"),
        Profile("amd", "e", since="0.10", vendor="AMD"), Profile("serving", "serving"),
    )  # fmt: skip
    names = {
        (version, maker): choose(known, "e", version, maker).name
        for version, maker in (("0.9.1", "NVIDIA"), ("0.10", "NVIDIA"), (None, "AMD CDNA 3"), ("0.8", "NVIDIA"))
    }
    assert list(names.values()) == ["old", "new", "amd", "old"]
    assert choose(known, "f", None, "").name == "serving"
    assert release("b5163") is None
    assert parse_version("0.10") > parse_version("0.9.9")


@pytest.mark.parametrize(
    "name, context, flops",
    [
        ("llama-3-8b", 1000, 32 * 4 * 32 * 128 * 1000),
        # gpt-oss-120b: 18 layers see 128 tokens, 18 all; 64 heads of 64.
        ("gpt-oss-120b", 1000, 18 * 4 * 64 * 64 * (128 + 1000)),
        ("deepseek-v3", 1000, 61 * 2 * 128 * (2 * 512 + 64) * 1000),
        ("deepseek-v3.2", 5000, 61 * 2 * 128 * (2 * 512 + 64) * 2048),  # top-k
        # Qwen3-Next: 12 layers of 16 heads of 256; 36 of 32 states of 128 x 128, four FLOPs each.
        ("qwen3-next-80b-a3b", 1000, 12 * 4 * 16 * 256 * 1000 + 36 * 4 * 32 * 128 * 128),
    ],
)
def test_the_lessons_attention_by_kind(name: str, context: int, flops: float) -> None:
    assert attention_flops(load_model(name), context) == flops


def test_the_lessons_read_no_layers_that_only_draft(machine: Callable[..., Machine]) -> None:
    # Llama-3-8B's 16,060,522,496 bytes in bf16, with a drafting layer of 1,000 x 4,096 beside them that rests.
    spec = load_model("llama-3-8b")
    matrix = Tensor(name="w", shape=(1000, 4096), category="mlp", matmul=True)
    spec = replace(spec, mtp=(LayerGroup(layers=(32,), tensors=(matrix,)),), weight_file_bytes=None)
    for tp in (1, 2):
        on = Replica(spec, Layout(tensor_parallel_size=tp), machine(), ideal=True)
        found = lesson_terms(on, Step(decode=4, context=1000))
        assert found.weight_bytes == 16_060_522_496 / tp
        assert found.cache_bytes == 4 * 1000 * 131_072 / tp
        assert found.flops == (4 * 2 * 8_030_261_248 + 4 * 32 * 4 * 32 * 128 * 1000) / tp


def test_drafts_hasten_a_step_and_widen_its_range() -> None:
    """30 ms (27 to 36) at a gain of 2 (1.6 to 2.5): logarithms of independent factors add as squares."""
    found = hastened(Estimate(0.030, 0.027, 0.036), Estimate(2.0, 1.6, 2.5))
    assert found.value == pytest.approx(0.015)
    assert found.low == pytest.approx(0.0117198, rel=1e-4)  # ln 0.9, ln 0.8
    assert found.high == pytest.approx(0.0200094, rel=1e-4)  # ln 1.2, ln 1.25


def test_who_waits_for_a_place_waits_for_whole_answers() -> None:
    """20 clients and 8 places: 1.5 rounds of a first token after 1 s and 100 tokens more at 20 ms."""
    one = Estimate(0.020, 0.020, 0.020)
    held = Steady(ttft=Estimate(1.0, 1.0, 1.0), tpot=one, prompt_s=0.1, ttft_alone=Estimate(0.1, 0.1, 0.1))
    asked = Requests(input_len=10, output_len=101)
    found = beyond_capacity(held, asked, 20, 8)
    assert found.ttft.value == pytest.approx(1.0 + 1.5 * (1.0 + 100 * 0.020))
    assert beyond_capacity(held, asked, 8, 8) is held


def test_the_lessons_count_of_compressed_attention() -> None:
    """4 FLOPs for each of 64 heads' 512 elements and each vector: the window's 128, and the history's."""
    seen = 2 * 128 + 21 * (128 + 512) + 20 * (128 + 8192 / 128)
    assert attention_flops(DEEPSEEK_V4_FLASH, 8192) == 4 * 64 * 512 * seen
    short = 2 * 100 + 21 * (100 + 25) + 20 * (100 + 100 / 128)
    assert attention_flops(DEEPSEEK_V4_FLASH, 100) == 4 * 64 * 512 * short


def test_the_lessons_count_of_cross_attention() -> None:
    """Llama-3.2-90B-Vision: 80 layers over the context, 20 over the image's 6,404 patches."""
    assert attention_flops(load_model("llama-3.2-90b-vision"), 1000) == 4 * 64 * 128 * (80 * 1000 + 20 * 6404)


def test_a_scheduler_that_looks_seldom() -> None:
    """Every ten steps of 20 ms, prompts of 0.1 s, the first wave of four apart: 3/4 of (4.5 steps, and half of those
    prompts that came meanwhile, at most the four others').
    """
    few, many = (Requests(input_len=1000, output_len=out, waves=4) for out in (100, 5))
    assert polling(10, few, 5, (0.1, 0.02)) == pytest.approx(0.75 * (4.5 * 0.02 + 0.05 * 0.5))
    assert polling(10, many, 5, (0.1, 0.02)) == pytest.approx(0.75 * (4.5 * 0.02 + 0.05 * 4))


def test_others_prompts_fall_into_a_requests_steps() -> None:
    asked = Requests(input_len=1000, output_len=200)
    assert closed_loop_tpot(0.01, 0.1, 20, asked) == pytest.approx(0.01 + 20 / 200 * 0.1)
    assert closed_loop_tpot(0.01, 0.1, -3, asked) == 0.01
