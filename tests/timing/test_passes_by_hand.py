"""A pass put together from its parts: which of an engine's constants a step, a prompt and a mixed step pay."""

from collections.abc import Callable

import numpy as np
import pytest

from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Layout
from kvcalc.timing.engine_profiles import Profile
from kvcalc.timing.machine import Machine
from kvcalc.timing.passes import Pass, engine_share
from kvcalc.timing.replica import Replica

LLAMA = load_model("llama-3-8b")  # 32 layers
DECODE = Step(decode=4, context=1000)
PROMPT = Step(prompts=1, tokens=500)
MIXED = DECODE._replace(prompts=1, tokens=500)
PLAIN = Profile("x", "x")

Make = Callable[..., Machine]


def on(machine: Machine, name: str = "llama-3-8b", layout: Layout | None = None, **profile: float) -> Replica:
    return Replica(load_model(name), layout or Layout(), machine._replace(profile=PLAIN._replace(**profile)))


def eager(replica: Replica) -> Replica:
    return Replica(replica.model, replica.layout, replica.machine, captured=0)


def test_what_the_engine_adds_by_what_is_in_the_step(machine: Make) -> None:
    replica = on(machine(), step_s=1.0, sequence_s=0.1, layer_s=0.01, prompt_layer_s=0.5)
    steps = 1.0 + 32 * 0.01 + 4 * 0.1
    assert Pass(replica, DECODE).engine_s == pytest.approx(steps)
    assert Pass(replica, PROMPT).engine_s == pytest.approx(32 * 0.5)
    assert Pass(replica, MIXED).engine_s == pytest.approx(steps + 32 * 0.5)
    assert engine_share(replica, 4) == pytest.approx(steps)
    assert replica.layer_launch_s == pytest.approx(32 * 0.01)


def test_prompts_of_experts_launch_more_in_each_layer(machine: Make) -> None:
    routed, dense = (
        on(machine(), name, prompt_layer_s=0.5, moe_prompt_layer_s=0.25) for name in ("mixtral-8x7b", "llama-3-8b")
    )
    assert [Pass(one, PROMPT).engine_s for one in (routed, dense)] == pytest.approx([32 * 0.75, 32 * 0.5])
    assert [Pass(one, DECODE).engine_s for one in (routed, dense)] == [0, 0]


def test_a_prompts_factor_is_of_what_it_adds(machine: Make) -> None:
    once, thrice = (on(machine(), prompt_factor=factor) for factor in (1.0, 3.0))
    decode, mixed, prompt = (Pass(once, step).kernels_s for step in (DECODE, MIXED, PROMPT))
    assert Pass(thrice, DECODE).kernels_s == decode
    assert Pass(thrice, PROMPT).kernels_s == pytest.approx(3 * prompt)
    assert Pass(thrice, MIXED).kernels_s == pytest.approx(decode + 3 * (mixed - decode))
    assert Pass(once, MIXED).without_prompts.step == DECODE


def test_without_graphs_each_layer_takes_a_launch_at_least(machine: Make) -> None:
    replica = eager(on(machine(), eager_layer_s=0.01))
    assert Pass(replica, DECODE).kernels_s == pytest.approx(0.32)
    fast = eager(on(machine(), eager_layer_s=1e-9))
    assert Pass(fast, DECODE).kernels_s == Pass(on(machine()), DECODE).kernels_s


def test_a_step_above_the_captured_ones_is_launched(machine: Make) -> None:
    one = on(machine(), eager_layer_s=0.01)
    within, above = (
        Pass(Replica(one.model, one.layout, one.machine, captured=captured), DECODE)
        for captured in (int(DECODE.decode), int(DECODE.decode) - 1)
    )
    assert within.kernels_s == Pass(one, DECODE).kernels_s
    assert above.kernels_s == pytest.approx(0.32)
    many = DECODE._replace(decode=np.array([1.0, 64.0]))
    assert Pass(above.replica, many).launched.tolist() == [0.0, 1.0]
    assert above.estimate is not None
    assert above.estimate.high == pytest.approx(1.75 * above.time_s)


def test_the_lessons_mixed_step(machine: Make) -> None:
    # 8,030,261,248 parameters at 2 FLOPs for each of 504 rows; 4 · 32 · 32 · 128 a pair, 500²/2 in the prompt.
    ideal = Replica(LLAMA, Layout(), machine(), ideal=True)
    found = Pass(ideal, MIXED)
    attention = 4 * 32 * 32 * 128
    assert found.attention_flops == attention * (4 * 1000 + 500**2 / 2)
    assert found.flops == pytest.approx(2 * 8_030_261_248 * 504 + found.attention_flops)
    assert found.bytes == 16_060_522_496 + 4 * 1000 * 131_072
    assert found.memory_time_s == pytest.approx(found.bytes / 3.35e12)
    assert found.compute_time_s == pytest.approx(found.flops / 989e12)
    assert found.time_s == max(found.memory_time_s, found.compute_time_s)
    assert Pass(ideal, MIXED, 0.5).compute_time_s == pytest.approx(2 * found.compute_time_s)
    verify = Pass(ideal, DECODE._replace(rows_each=3))
    assert verify.flops == pytest.approx(3 * Pass(ideal, DECODE).flops)
    assert (verify.bytes, verify.engine_s) == (Pass(ideal, DECODE).bytes, 0)


def test_a_card_of_several_chips_hands_on_between_them(machine: Make) -> None:
    whole = machine()
    split = whole._replace(gpu=replace(whole.gpu, split_over=3))
    (hop,) = [one for one in Replica(LLAMA, Layout(), split).operators(DECODE) if one.kind == "send"]
    assert (hop.count, hop.ranks) == (2, 2)
    assert not [one for one in Replica(LLAMA, Layout(), whole).operators(DECODE) if one.kind == "send"]


def test_the_peak_is_of_the_type_that_most_weights_have(machine: Make) -> None:
    assert Replica(LLAMA, Layout(), machine()).peak_flops == 989e12
    assert Replica(load_model("deepseek-v3"), Layout(), machine()).peak_flops == 1979e12  # fp8
