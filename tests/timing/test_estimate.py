"""Properties that an estimate must have on any machine."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.catalog.models import load_model
from kvcalc.counting.operators.passes import decode_step
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import ModelSpec
from kvcalc.timing.estimate import Estimate, estimate_step, kernel_sums, step_time
from kvcalc.timing.price import Machine
from kvcalc.timing.roofline import operator_bound_total

Make = Callable[..., Machine]
MODELS = ("llama-3-8b", "gpt-oss-120b", "deepseek-v3", "qwen3-next-80b-a3b")
GPUS = ("h100-sxm", "a100-80g-sxm", "b200-sxm", "l40s", "mi300x", "rtx4090")
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40)


def estimate(model: ModelSpec, machine: Machine, batch: int, context: int, tp: int = 1) -> Estimate:
    operators = decode_step(model, Layout(tensor_parallel_size=tp), batch=batch, context=context)
    return estimate_step(operators, machine, sequences=batch)


def with_layers(model: ModelSpec, factor: int) -> ModelSpec:
    """The same model with every group of layers repeated."""
    groups = tuple(
        replace(group, layers=tuple(range(first, first + factor * group.count)))
        for first, group in zip(range(0, 10**6, 10**5), model.groups, strict=False)
    )
    return replace(model, groups=groups)


@relaxed
@given(
    st.sampled_from(MODELS), st.sampled_from(GPUS), st.integers(1, 2000), st.integers(1, 50_000), st.integers(1, 500)
)
def test_it_grows_with_batch_and_context(
    machine: Make, name: str, gpu: str, batch: int, context: int, more: int
) -> None:
    model, on = load_model(name), machine(gpu)
    here = estimate(model, on, batch, context).value
    assert estimate(model, on, batch + more, context).value > here
    assert estimate(model, on, batch, context + more).value >= here


@relaxed
@given(st.sampled_from(MODELS), st.sampled_from(GPUS), st.integers(1, 512), st.integers(1, 20_000))
def test_it_grows_with_layers_and_shrinks_with_bandwidth(
    machine: Make, name: str, gpu: str, batch: int, context: int
) -> None:
    model, on = load_model(name), machine(gpu)
    here = estimate(model, on, batch, context).value
    assert estimate(with_layers(model, 2), on, batch, context).value > here
    doubled = {"memory_bandwidth_bytes_per_s": 2 * on.gpu.memory_bandwidth_bytes_per_s}
    faster = Machine(replace(on.gpu, **doubled), on.kernels, on.profile)
    assert estimate(model, faster, batch, context).value < here


@relaxed
@given(st.sampled_from(MODELS), st.sampled_from(GPUS), st.floats(1, 1000), st.sampled_from((1, 8)))
def test_it_is_continuous_in_the_batch(machine: Make, name: str, gpu: str, batch: float, tp: int) -> None:
    # Where one kernel overtakes another both take the same time, so even there nothing jumps.
    model, on = load_model(name), machine(gpu)
    layout = Layout(tensor_parallel_size=tp)
    near = [
        step_time(kernel_sums(decode_step(model, layout, batch=size, context=1000), on), on.profile, size)
        for size in (batch, batch * (1 + 1e-6))
    ]
    assert near[1] == pytest.approx(near[0], rel=1e-4)


@relaxed
@given(st.sampled_from(MODELS), st.integers(1, 300), st.integers(1, 40_000), st.integers(1, 40_000))
def test_at_a_fixed_batch_it_is_linear_between_the_bends(
    machine: Make, name: str, batch: int, context: int, more: int
) -> None:
    # Attention over keys and values is linear; latent attention bends from bandwidth to FLOPs, so it is left out.
    if name == "deepseek-v3":
        return
    model, on = load_model(name), machine()
    start = 1024 + context  # beyond every window
    low, middle, high = (estimate(model, on, batch, start + i * more).value for i in range(3))
    assert high - middle == pytest.approx(middle - low, rel=1e-6)


def test_the_parts_add_up(machine: Make) -> None:
    on = machine()
    operators = decode_step(load_model("gpt-oss-120b"), Layout(tensor_parallel_size=2), batch=16, context=4000)
    found = estimate_step(operators, on, sequences=16)
    assert found.value == pytest.approx(sum(one.time_s for one in found.operators) + found.engine_s)
    assert found.value == pytest.approx(step_time(kernel_sums(operators, on), on.profile, 16))
    assert found.low < found.value < found.high


def test_a_sweep_gives_what_single_points_give(machine: Make) -> None:
    model, batches = load_model("deepseek-v3"), np.array([1, 8, 64])
    for gpu in GPUS:
        on = machine(gpu)
        operators = decode_step(model, batch=batches, context=2000)
        swept = estimate_step(operators, on, sequences=batches)
        for place, batch in enumerate(batches.tolist()):
            assert swept.value[place] == pytest.approx(estimate(model, on, batch, 2000).value)


def test_it_is_never_clamped_to_the_bound(machine: Make) -> None:
    # Constants that say a kernel is three times as fast as the data sheet are believed: the estimate shows them.
    on = machine()
    fast = replace(on.kernels, gemm=tuple(replace(row, bandwidth_share=3.0) for row in on.kernels.gemm))
    operators = decode_step(load_model("llama-3-70b"), batch=1, context=1)
    found = estimate_step(operators, Machine(on.gpu, fast, on.profile), sequences=1)
    assert found.value < operator_bound_total(operators, on.gpu)


def test_borrowed_kernels_are_said_and_widen_the_range(machine: Make) -> None:
    model = load_model("llama-3-8b")
    own, borrowed = estimate(model, machine("h100-sxm"), 1, 100), estimate(model, machine("h100-pcie"), 1, 100)
    assert not own.assumptions
    assert [one.value for one in borrowed.assumptions] == ["h100-sxm"]
    assert borrowed.high / borrowed.low > own.high / own.low
