"""Properties that an estimate must have on any machine."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kvcalc.catalog.gpus import all_gpus
from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
from kvcalc.specs.base import replace
from kvcalc.specs.deployment import Layout
from kvcalc.specs.model import ModelSpec
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.machine import Machine
from kvcalc.timing.passes import Pass
from kvcalc.timing.replica import Replica

Make = Callable[..., Machine]
MODELS = ("llama-3-8b", "gpt-oss-120b", "deepseek-v3", "qwen3-next-80b-a3b")
GPUS = ("h100-sxm", "a100-80g-sxm", "b200-sxm", "l40s", "mi300x", "rtx4090")
relaxed = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def decode(model: ModelSpec, machine: Machine, batch: Any, context: Any, tp: int = 1) -> Pass:
    replica = Replica(model, Layout(tensor_parallel_size=tp), machine)
    return Pass(replica, Step(decode=batch, context=context))


def estimate(model: ModelSpec, machine: Machine, batch: Any, context: float, tp: int = 1) -> Estimate:
    found = decode(model, machine, batch, context, tp).estimate
    assert found is not None
    return found


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
    near = [estimate(model, on, size, 1000, tp).value for size in (batch, batch * (1 + 1e-6))]
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
    found = decode(load_model("gpt-oss-120b"), machine(), 16, 4000, tp=2)
    assert found.estimate is not None
    kernels = sum(one.time_s for one in found.operator_times)
    assert found.estimate.value == pytest.approx(kernels + found.engine_s)
    assert found.estimate.low < found.estimate.value < found.estimate.high


def test_a_sweep_gives_what_single_points_give(machine: Make) -> None:
    model, batches = load_model("deepseek-v3"), np.array([1, 8, 64])
    for gpu in GPUS:
        on = machine(gpu)
        swept = estimate(model, on, batches, 2000)
        for place, batch in enumerate(batches.tolist()):
            assert swept.value[place] == pytest.approx(estimate(model, on, batch, 2000).value)


def test_it_is_never_clamped_to_the_bound(machine: Make) -> None:
    # Constants that say a kernel is three times as fast as the data sheet are believed: the estimate shows them.
    on = machine()
    fast = replace(on.kernels, gemm=tuple(replace(row, bandwidth_share=3.0) for row in on.kernels.gemm))
    found = decode(load_model("llama-3-70b"), Machine(on.gpu, fast, on.profile), 1, 1)
    assert found.time_s < found.operator_bound_s


def test_a_bound_is_never_above_the_low_of_the_estimate(machine: Make) -> None:
    """A dense model on every GPU; every model where kernels were measured, and on the first GPU that borrows them."""
    models = [load_model(name) for name in MODELS]
    batches, contexts = np.array(list(product((1, 32, 512), (512, 32_768)))).T
    borrowed: set[str] = set()
    for gpu in all_gpus():
        on = machine(gpu.name)
        for model in models[:1] if on.kernels.like in borrowed else models:
            found = decode(model, on, batches, contexts)
            assert found.estimate is not None
            assert (found.bound_s <= found.estimate.low).all(), (gpu.name, model.name)
            assert (found.estimate.low <= found.estimate.value).all(), (gpu.name, model.name)
        borrowed |= {on.kernels.like} if on.kernels.like else set()


@relaxed
@given(st.sampled_from(MODELS), st.integers(1, 64), st.integers(1, 8000), st.integers(2, 8000))
def test_a_prompt_beside_one_decode_is_later_by_that_step_and_no_more(
    machine: Make, name: str, context: int, start: int, tokens: int
) -> None:
    """One constant prices a prompt, alone or carried: what decodes beside it adds its own reading and scheduling."""
    replica = Replica(load_model(name), Layout(), machine())
    alone = Pass(replica, Step(prompts=1, tokens=tokens, start=start)).time_s
    beside = Pass(replica, Step(decode=1, context=context, prompts=1, tokens=tokens, start=start))
    step = beside.without_prompts.time_s
    # Experts that both wake are read once, at the factor of prompts or of decoding: a few percent.
    least = 0.9 if replica.routed else 1 - 1e-9
    assert alone * least <= beside.time_s <= (alone + step) * (1 + 1e-9)


def test_borrowed_kernels_are_said_and_widen_the_range(machine: Make) -> None:
    model = load_model("llama-3-8b")
    own, borrowed = (decode(model, machine(gpu), 1, 100) for gpu in ("h100-sxm", "h100-pcie"))
    assert not own.assumptions
    assert [one.value for one in borrowed.assumptions] == ["h100-sxm"]
    assert own.estimate is not None
    assert borrowed.estimate is not None
    assert borrowed.estimate.high / borrowed.estimate.value > own.estimate.high / own.estimate.value
