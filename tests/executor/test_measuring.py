"""Timing, fitting and waiting: what a figure is, whatever the machine is doing. Nothing here depends on a time."""

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvcalc.errors import KvcalcError
from kvcalc.executor import microbench, quiet, timing
from kvcalc.executor.device import Device
from kvcalc.executor.fit import fit
from kvcalc.executor.quiet import Patience, moved, wait_until_quiet
from kvcalc.executor.timing import Bench, Sample

CPU = Device("cpu")
SIZES = st.lists(st.floats(1e3, 1e9), min_size=2, max_size=6, unique=True)


@given(SIZES, st.floats(1e-6, 1e-2), st.floats(1e8, 1e12))
def test_latency_and_bandwidth_are_found_again(sizes: list[float], latency: float, bandwidth: float) -> None:
    times = [latency + size / bandwidth for size in sizes]
    (first, per_byte), error = fit([[1.0] * len(sizes), sizes], times)
    assert error < 1e-6
    for size, time in zip(sizes, times, strict=True):
        assert first + per_byte * size == pytest.approx(time, rel=1e-5)


def test_no_constant_is_below_zero() -> None:
    (latency, per_byte), error = fit([[1, 1, 1], [10, 20, 30]], [1.0, 4.0, 9.0])
    assert latency == 0
    assert per_byte > 0
    assert error > 0.1


def test_a_sample_is_the_median_and_how_far_windows_spread() -> None:
    sample = Sample(tuple(float(value) for value in range(1, 12)))
    assert (sample.value, *sample.tenths) == (6, 2, 10)
    assert sample.spread == 5
    assert sample.per(2).value == 3
    assert Sample((4.0,)).spread == 1


def test_a_difference_is_taken_window_by_window() -> None:
    drifting, part = Sample((10.0, 20.0, 30.0)), Sample((9.0, 19.0, 29.0))
    found = drifting.less(part)
    assert (found.value, found.noise, found.resolved) == (1, 0, True)
    lost = Sample((10.0, 12.0, 11.0)).less(Sample((11.0, 10.0, 11.0)))
    assert not lost.resolved
    assert lost.positive == pytest.approx(0.011)


def test_a_bench_calls_each_step_and_returns_them_by_name() -> None:
    calls = {"a": 0, "b": 0}

    def step(name: str) -> None:
        calls[name] += 1

    bench = Bench(CPU, Patience(0))
    found = bench.together({"a": lambda: step("a"), "b": lambda: step("b")}, windows=3, tries=1)
    assert set(found) == {"a", "b"}
    assert all(sample.value > 0 and len(sample.times) == 3 for sample in found.values())
    assert min(calls.values()) > 3


@pytest.mark.parametrize("seconds, calls", [(30.0, 3), (2.0, 5), (0.05, 9)])
def test_a_slow_step_is_called_a_few_times(monkeypatch: pytest.MonkeyPatch, seconds: float, calls: int) -> None:
    """Once to see how slow it is, twice to see whether it stays so; a quick one is warmed up for seven windows."""
    now, called = [0.0], list[float]()
    clock = SimpleNamespace(monotonic=lambda: now[0], perf_counter=lambda: now[0])
    monkeypatch.setattr(timing, "time", clock)

    def step() -> None:
        called.append(now[0])
        now[0] += seconds

    found = Bench(CPU, Patience(0)).together({"a": step}, tries=1)["a"]
    assert found.value == pytest.approx(seconds)
    assert len(called) == calls


@pytest.mark.parametrize("flops, size", [(1e9, 512), (4e11, 2048), (1e15, 2048)])
def test_the_product_that_shows_the_peak_takes_no_half_second(
    monkeypatch: pytest.MonkeyPatch, flops: float, size: int
) -> None:
    sizes: list[int] = []

    def square(_device: Device, one: int, _dtype: str) -> object:
        sizes.append(one)
        return one

    monkeypatch.setattr(microbench, "_square", square)
    bench: Any = SimpleNamespace(
        device=CPU, once=lambda one: 2 * one**3 / flops, measure=lambda one: Sample((2 * one**3 / flops,))
    )
    assert microbench.matmul_peak(bench, "bf16")[0] == pytest.approx(flops)
    assert sizes[-1] == size


def test_a_quiet_device_is_quiet_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet.Others, "share", lambda self: 0.0)
    found = wait_until_quiet(CPU, iter([25e9, 26e9]).__next__, Patience(60))
    assert (found.quiet, found.bandwidth_bytes_per_s) == (True, 26e9)


def test_a_steady_device_that_others_use_is_reported_as_not_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet.Others, "share", lambda self: 0.5)
    monkeypatch.setattr(quiet.time, "sleep", lambda seconds: None)
    patience = Patience(2)
    assert not wait_until_quiet(CPU, lambda: 25e9, patience).quiet
    assert patience.left <= 0


def test_a_device_that_is_never_steady_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quiet.Others, "share", lambda self: 0.0)
    monkeypatch.setattr(quiet.time, "sleep", lambda seconds: None)
    readings = [10e9, 20e9] * 200
    with pytest.raises(KvcalcError, match="no quiet moment in 3 s"):
        wait_until_quiet(CPU, iter(readings).__next__, Patience(3))


def test_a_bandwidth_moves_by_a_fifth() -> None:
    assert not moved(25e9, 29e9)
    assert moved(25e9, 27e9, 31e9)


def test_others_take_nothing_of_a_gpu() -> None:
    assert quiet.Others(Device("cuda")).share() == 0
    assert Patience(0).wait(Device("cuda"))
    assert 0 <= quiet.Others(CPU).share() <= 1
