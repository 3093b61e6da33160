"""The device beside a point against what it was: from made-up calibrations and windows. Nothing depends on a time."""

from types import SimpleNamespace
from typing import Any

import pytest

from kvcalc.answers.predict import Drift
from kvcalc.executor import device as devices
from kvcalc.executor import drift as drifting
from kvcalc.executor import microbench, microbench_layer, points
from kvcalc.executor.device import Device
from kvcalc.executor.drift import Canaries, measuring_bytes
from kvcalc.executor.microbench_layer import AttentionSteps, Heads
from kvcalc.executor.points import measure_point
from kvcalc.executor.quiet import Others, Patience
from kvcalc.executor.timing import Bench, Sample
from kvcalc.reports.calibrate import AttentionRow, CalibrateResult, GlueRow, LinearRow
from kvcalc.units import KIB, MIB

CPU = Device("cpu")
HEADS = Heads("fp32", 4, 16, 16)


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> CalibrateResult:
    monkeypatch.setattr(microbench, "MATRICES", {"cpu": ((32, 32), (64, 96), (128, 256))})
    monkeypatch.setattr(Device, "rotated_bytes", 2**18)
    monkeypatch.setattr(drifting, "CACHES", {"cpu": ((1, 16), (1, 32), (2, 64))})
    skeletons = ((1, 256, 64, 50), (2, 256, 64, 100))
    monkeypatch.setattr(drifting, "SKELETONS", skeletons)
    monkeypatch.setattr(microbench_layer, "SKELETONS", skeletons)
    monkeypatch.setattr(drifting, "SKELETON_ROWS", (1, 6, 40))
    rate: dict[str, Any] = {"dtype": "fp32", "latency_s": 0.0, "bandwidth_bytes_per_s": 1e9, "error": 0.0}
    return CalibrateResult.model_construct(
        linear_rows=(LinearRow(rows=8, times_s=(1e-6, 4e-6, 9e-6), **rate),),
        attention_rows=(AttentionRow(group=4, head_dim=16, page_size=16, times_s=(1e-5, 2e-5, 5e-5), **rate),),
        glue_rows=(
            GlueRow(
                dtype="fp32", cold=False, qk_norm=False, step_s=0.0, layer_s=0.0, bandwidth_bytes_per_s=None,
                sampler_bandwidth_bytes_per_s=None, times_s=(1e-4, 2e-4, 3e-4, 4e-4, 5e-4, 6e-4), error=0.0,
            ),
        ),
    )  # fmt: skip


def test_each_term_drifts_by_its_own_benchmark(calibration: CalibrateResult) -> None:
    canaries = Canaries(CPU, HEADS, calibration)
    steps = canaries.steps(8)
    for step in steps.values():
        step()
    matrices = 11  # of 64 × 96 × 4 bytes: what it takes to fill 2¹⁸
    layers = canaries._attention.layers
    samples = {
        "products": Sample((matrices * 6e-6,)),
        AttentionSteps.WITHOUT: Sample((1e-3,)),
        AttentionSteps.WHOLE: Sample((1e-3 + layers * 1e-4,)),
        "glue": Sample((1e-3,)),
    }
    assert set(samples) == set(steps)
    found = canaries.drift(8, samples)
    assert found.weights == pytest.approx(6 / 4)  # the middle matrix
    assert found.kv == pytest.approx(100 / 50)  # the third cache
    assert found.overhead == pytest.approx(1000 / 500)  # the second decoder on 6 rows, the most that 8 reach


def test_what_measuring_holds_is_counted() -> None:
    assert measuring_bytes(CPU) > microbench.read_bytes(CPU) >= CPU.rotated_bytes


def test_buffers_rotate_through_twice_the_largest_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for index, size in enumerate(("48K", "2048K", "32768K")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    monkeypatch.setattr(devices, "CPU_CACHES", tmp_path)
    here = Device("cpu")
    assert here.cache_bytes == 32 * 1024 * KIB
    here.__dict__["memory_bytes"] = 64 * 1024 * MIB
    assert here.rotated_bytes == 64 * MIB
    here.__dict__["memory_bytes"] = 512 * MIB
    assert here.rotated_bytes == 32 * MIB
    monkeypatch.setattr(devices, "CPU_CACHES", tmp_path / "nowhere")
    assert Device("cpu").cache_bytes == 64 * MIB


class Moving:
    """A device whose bandwidth is read from a list, and canaries that say what they are told."""

    def __init__(self, bandwidths: list[float], drifts: list[float]) -> None:
        self.bandwidths, self.drifts, self.measured = iter(bandwidths), iter(drifts), 0

    def bandwidth(self) -> float:
        return next(self.bandwidths)

    def steps(self, batch: int) -> dict[str, Any]:
        return {}

    def drift(self, batch: int, samples: Any) -> Drift:
        self.measured += 1
        return Drift(weights=next(self.drifts))


@pytest.fixture
def decoder() -> Any:
    return SimpleNamespace(
        tokens=SimpleNamespace(numel=lambda: 1), step=lambda model=None: None, without=lambda *terms: None
    )


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Others, "share", lambda self: 0.0)
    monkeypatch.setattr(Patience, "wait", lambda self, device: True)
    monkeypatch.setattr(points.Bench, "together", lambda self, steps, tries: {name: Sample((1.0,)) for name in steps})


@pytest.mark.parametrize(
    "bandwidths, drifts, patience, tries, quiet, kept",
    [
        ([20e9, 20e9], [1.1], 60, 1, True, 1.1),  # as it was
        ([20e9, 30e9, 20e9, 21e9], [1.0, 1.1], 60, 2, True, 1.1),  # moved meanwhile
        ([20e9, 20e9] * 4, [1.5, 1.4, 1.3, 1.6], 60, 4, False, 1.3),  # never what it was: the nearest
        ([20e9, 20e9] * 2, [1.5, 0.7], 0, 2, False, 0.7),  # once more, even without patience
    ],
)
def test_a_point_is_repeated_while_the_device_is_not_what_it_was(
    bandwidths: list[float], drifts: list[float], patience: float, tries: int, quiet: bool, kept: float, decoder: Any
) -> None:
    device: Any = Moving(bandwidths, drifts)
    found = measure_point(Bench(CPU, Patience(patience)), decoder, device, device)
    assert device.measured == tries
    assert found.quiet is quiet
    assert found.drift == Drift(weights=kept)
