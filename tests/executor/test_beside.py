"""Constants beside a point: from made-up windows, worked out by hand. Nothing here depends on a time."""

from types import SimpleNamespace
from typing import Any

import pytest

from kvcalc.answers.device.constants import attention_at, glue_at, linear_at
from kvcalc.executor import beside as besides
from kvcalc.executor import device as devices
from kvcalc.executor import microbench, microbench_layer
from kvcalc.executor.beside import Beside, beside_bytes
from kvcalc.executor.device import Device
from kvcalc.executor.microbench_layer import Heads
from kvcalc.executor.points import measure_point
from kvcalc.executor.quiet import Others, Patience
from kvcalc.executor.timing import Bench, Sample
from kvcalc.results.calibrate import AttentionRow, CalibrateResult, GlueRow, LinearRow
from kvcalc.specs.base import field_names
from kvcalc.units import KIB, MIB

CPU = Device("cpu")
HEADS = Heads("fp32", 4, 16, 16)


@pytest.fixture
def calibration(monkeypatch: pytest.MonkeyPatch) -> CalibrateResult:
    monkeypatch.setattr(microbench, "MATRICES", {"cpu": ((32, 32), (64, 96), (128, 256))})
    monkeypatch.setattr(microbench, "HEAD", (96, 32))
    monkeypatch.setattr(Device, "rotated_bytes", 2**18)
    monkeypatch.setattr(besides, "CACHES", {"cpu": ((1, 16), (1, 32), (2, 64))})
    skeletons = ((1, 256, 64, 50), (2, 256, 64, 100))
    monkeypatch.setattr(besides, "SKELETONS", skeletons)
    monkeypatch.setattr(microbench_layer, "SKELETONS", skeletons)
    rate: dict[str, Any] = {
        "dtype": "fp32", "latency_s": 0.0, "bandwidth_bytes_per_s": 1e9, "times_s": (), "error": 0.0
    }  # fmt: skip
    glue: dict[str, Any] = {
        "dtype": "fp32", "qk_norm": False, "step_s": 50e-6, "bandwidth_bytes_per_s": None,
        "sampler_bandwidth_bytes_per_s": None, "times_s": (), "error": 0.0,
    }  # fmt: skip
    unused: dict[str, Any] = dict.fromkeys(field_names(CalibrateResult))
    found = {
        "read_bandwidth_bytes_per_s": 20e9,
        "linear_rows": (LinearRow(rows=8, **rate),),
        "attention_rows": (AttentionRow(group=4, head_dim=16, page_size=16, **rate),),
        "glue_rows": (GlueRow(cold=False, layer_s=100e-6, **glue), GlueRow(cold=True, layer_s=200e-6, **glue)),
    }
    return CalibrateResult(**unused | found)


def test_constants_come_from_the_windows_beside_the_point(calibration: CalibrateResult) -> None:
    beside = Beside(CPU, HEADS, calibration, tied=False)
    steps = beside.steps(8)
    for step in steps.values():
        step()
    small, large = 4 * 32 * 32, 4 * 128 * 256  # bytes of a matrix of fp32
    samples = {
        # 2¹⁸ bytes hold 64 of the small matrices and two of the large; 50 µs and 1 GB/s
        "products 0": Sample((64 * (50e-6 + small / 1e9),)),
        "products 1": Sample((2 * (50e-6 + large / 1e9),)),
        "glue": Sample((3 * 25e-5,)),
    }
    read = [2 * 1 * 16 * 4 * 16 * 4, 2 * 2 * 64 * 4 * 16 * 4]  # keys and values × batch × tokens × heads × width × 4
    for index, one in enumerate(beside._attention):
        samples[f"{one.WITHOUT} {index}"] = Sample((1e-3,))
        samples[f"{one.WHOLE} {index}"] = Sample((1e-3 + one.layers * (100e-6 + read[index] / 2e9),))
    assert set(samples) == set(steps)
    found = beside.constants(8, samples)
    linear = linear_at(found, "fp32", 8)
    assert (linear.latency_s, linear.bandwidth_bytes_per_s) == (pytest.approx(50e-6), pytest.approx(1e9))
    attention = attention_at(found, *HEADS.shape)
    assert (attention.latency_s, attention.bandwidth_bytes_per_s) == (pytest.approx(100e-6), pytest.approx(2e9))
    # The middle decoder has two layers: 50 µs + 2 × 100 µs when it was calibrated, three times that now.
    for cold, layer_s in ((False, 100e-6), (True, 200e-6)):
        glue = glue_at(found, "fp32", cold=cold, qk_norm=False)
        assert (glue.step_s, glue.layer_s) == (pytest.approx(150e-6), pytest.approx(3 * layer_s))


def test_a_tied_head_has_a_matrix_of_its_own_kind(calibration: CalibrateResult) -> None:
    beside = Beside(CPU, HEADS, calibration, tied=True)
    packed = beside._sets[1][0].packed
    assert len(beside._sets) == (3 if packed else 2)
    samples = {name: Sample((1.0,)) for name in beside.steps(8)}
    assert (linear_at(beside.constants(8, samples), "fp32", 8).plain_bandwidth_bytes_per_s is not None) is packed


def test_memory_beside_a_model_is_counted(calibration: CalibrateResult) -> None:
    beside = Beside(CPU, HEADS, calibration, tied=True)
    matrices = sum(linear.bytes for linears in beside._sets for linear in linears)
    caches = sum(one.decoder.model.cache.bytes for one in beside._attention)
    assert matrices + caches <= beside_bytes(CPU) * 1.5  # sets are rounded up to whole matrices, which are small here


def test_buffers_rotate_through_twice_the_largest_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for index, size in enumerate(("48K", "2048K", "32768K")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(size + "\n")
    monkeypatch.setattr(devices, "CPU_CACHES", tmp_path)
    here = Device("cpu")
    assert here.cache_bytes == 32 * 1024 * KIB
    here.__dict__["memory_bytes"] = 64 * 1024 * MIB
    assert here.rotated_bytes == 64 * MIB
    here.__dict__["memory_bytes"] = 1024 * MIB
    assert here.rotated_bytes == 32 * MIB
    monkeypatch.setattr(devices, "CPU_CACHES", tmp_path / "nowhere")
    assert Device("cpu").cache_bytes == 64 * MIB


class Moving:
    """A device whose bandwidth is read from a list, and benchmarks beside it that count how often they are asked."""

    def __init__(self, bandwidths: list[float]) -> None:
        self.bandwidths, self.measured = iter(bandwidths), 0

    def bandwidth(self) -> float:
        return next(self.bandwidths)

    def steps(self, batch: int) -> dict[str, Any]:
        return {}

    def constants(self, batch: int, samples: Any) -> str:
        self.measured += 1
        return f"try {self.measured}"


@pytest.fixture
def decoder() -> Any:
    return SimpleNamespace(
        tokens=SimpleNamespace(numel=lambda: 1), step=lambda model=None: None, without=lambda *terms: None
    )


@pytest.mark.parametrize(
    "bandwidths, patience, tries, quiet, kept",
    [
        ([20e9, 20e9], 60, 1, True, 1),  # as it was
        ([20e9, 30e9, 20e9, 21e9], 60, 2, True, 2),  # moved meanwhile
        ([30e9, 30e9, 28e9, 28e9, 26e9, 26e9, 29e9, 29e9], 60, 4, False, 3),  # never what it was: the nearest
        ([30e9, 30e9, 28e9, 28e9], 0, 2, False, 2),  # once more, even without patience
    ],
)
def test_a_point_is_repeated_while_the_device_is_not_what_it_was(
    bandwidths: list[float],
    patience: float,
    tries: int,
    quiet: bool,
    kept: int,
    decoder: Any,
    calibration: CalibrateResult,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Others, "share", lambda self: 0.0)
    monkeypatch.setattr(Patience, "wait", lambda self, device: True)
    monkeypatch.setattr(Bench, "together", lambda self, steps, tries: {name: Sample((1.0,)) for name in steps})
    device: Any = Moving(bandwidths)
    found = measure_point(Bench(CPU, Patience(patience)), decoder, device, calibration, device)
    assert device.measured == tries
    assert found.quiet is quiet
    assert found.constants == f"try {kept}"


def test_without_benchmarks_beside_it_the_constants_are_those_of_the_calibration(
    decoder: Any, calibration: CalibrateResult, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Others, "share", lambda self: 0.0)
    monkeypatch.setattr(Bench, "together", lambda self, steps, tries: {name: Sample((1.0,)) for name in steps})
    device: Any = Moving([20e9, 20e9])
    assert measure_point(Bench(CPU, Patience(0)), decoder, device, calibration, None).constants is calibration
