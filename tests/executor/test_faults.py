"""What a device refuses is told in the user's words; what is kvcalc's own fault stays one."""

import gc
import json
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from executor.models import model_of

from kvcalc.catalog.gpus import load_gpu
from kvcalc.errors import KvcalcError
from kvcalc.executor import device as devices
from kvcalc.executor import faults, store
from kvcalc.executor import grid as grids
from kvcalc.executor.attention_triton import fitting
from kvcalc.executor.cache import Cache
from kvcalc.executor.calibrate import doubts
from kvcalc.executor.checkpoint import weight_files
from kvcalc.executor.device import Device, nvidia_smi, open_device
from kvcalc.executor.loop import Decoder
from kvcalc.executor.microbench_layer import Heads
from kvcalc.executor.shape import shape_of
from kvcalc.executor.weights import random_weights
from kvcalc.results.calibrate import CalibrateResult, Rate

CPU = torch.device("cpu")


class OutOfResources(Exception):
    """As Triton's is called, wherever it stands in a version."""


@pytest.mark.parametrize("error, said", [
    (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), "the device ran out of memory: CUDA out"),
    (OutOfResources("out of resource: shared memory, Required: 139264"), "a kernel needs more shared memory"),
    (RuntimeError("Failed to find C compiler. Please specify via CC"), "Triton found no C compiler"),
    (RuntimeError("CUDA error: no kernel image is available"), "this PyTorch has no kernels for this GPU"),
    (RuntimeError("The NVIDIA driver on your system is too old (found version 11040)"), "the NVIDIA driver is older"),
    (MemoryError(), "not enough memory"),
])  # fmt: skip
def test_what_a_device_refuses_is_told(error: Exception, said: str) -> None:
    with pytest.raises(KvcalcError) as caught, faults.told():
        raise error
    assert caught.value.message.startswith(said)
    assert "\n" not in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize("error", [ZeroDivisionError("x"), KvcalcError("mine", hint="h"), KeyError("y")])
def test_other_errors_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, faults.told():
        raise error
    assert caught.value is error


@pytest.mark.parametrize("room", [4, 3, 1])
def test_fewer_tiles_in_flight_where_a_block_has_little_memory(room: int) -> None:
    tried: list[int] = []

    def launch(stages: int) -> None:
        tried.append(stages)
        if stages > room:
            raise OutOfResources

    assert fitting(launch, 4) == room
    assert tried == list(range(4, room - 1, -1))


def test_no_tile_fits_at_all() -> None:
    def launch(_stages: int) -> None:
        raise OutOfResources

    with pytest.raises(OutOfResources):
        fitting(launch, 5)


def test_a_cache_goes_when_nobody_holds_it() -> None:
    gc.collect()
    gc.disable()
    try:
        shape = shape_of(model_of())
        cache = Cache(shape, [4], 16, torch.float32, CPU)
        decoder = Decoder(random_weights(shape, torch.float32, CPU), cache, Device("cpu"), 1, 16)
        gone = weakref.ref(cache)
        del cache, decoder
        assert gone() is None
    finally:
        gc.enable()


def test_the_index_says_which_files_are_the_checkpoint(tmp_path: Path) -> None:
    for name in ("consolidated.safetensors", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        (tmp_path / name).touch()
    shards = sorted(tmp_path.glob("model-*"))
    assert weight_files(tmp_path) == shards
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": shards[0].name, "b": shards[0].name}}))
    assert weight_files(tmp_path) == shards[:1]
    index.write_text(json.dumps({"weight_map": {"a": "../../etc/passwd"}}))
    assert weight_files(tmp_path) == [tmp_path / "passwd"]
    index.write_text(json.dumps({"weight_map": [1]}))
    with pytest.raises(KvcalcError, match="weight_map"):
        weight_files(tmp_path)


@pytest.mark.parametrize("head_dim, group, fits", [(8, 4, False), (512, 4, False), (128, 4, True), (512, 1, True)])
def test_heads_that_the_kernels_have_not(head_dim: int, group: int, fits: bool) -> None:
    heads = Heads("bf16", group, head_dim, 64)
    heads.check(Device("cpu"))
    if fits:
        heads.check(Device("cuda"))
    else:
        with pytest.raises(KvcalcError, match="kernels have none such"):
            heads.check(Device("cuda"))


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A driver's tool that knows one GPU, and notes how it was asked."""
    path = tmp_path / "nvidia-smi"
    path.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\necho "550.1, 1980 MHz"\n')
    path.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return tmp_path / "asked"


def test_the_drivers_tool_is_asked_once_and_by_uuid(tool: Path) -> None:
    assert nvidia_smi(("driver_version", "clocks.sm"), "GPU-12ab") == {
        "driver_version": "550.1",
        "clocks.sm": "1980 MHz",
    }
    assert tool.read_text() == "--query-gpu=driver_version,clocks.sm --format=csv,noheader --id=GPU-12ab\n"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_gpu_that_pytorch_cannot_use_is_not_passed_over(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    with pytest.raises(KvcalcError, match="there is a GPU, and PyTorch cannot use it") as caught:
        open_device(None)
    assert "--device cpu" in caught.value.hint
    assert open_device("cpu").kind == "cpu"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # hidden on purpose
    assert open_device(None).kind == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_drivers_own_words_are_quoted(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails() -> None:
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040).\nmore")

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "init", fails)
    assert devices.cuda_error() == (
        "The NVIDIA driver on your system is too old (found version 11040). (PyTorch's CUDA is 12.8, the driver 550.1)"
    )


@pytest.mark.parametrize("found, said", [("gcc", None), ("", "C compiler")])
def test_a_compiler_is_looked_for_first(monkeypatch: pytest.MonkeyPatch, found: str, said: str | None) -> None:
    pytest.importorskip("triton")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(faults.shutil, "which", lambda name: name if name == found else None)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch, "ones", lambda *_, **__: torch.zeros(1))
    monkeypatch.setattr(torch, "device", lambda *_: CPU)
    if said is None:
        faults.preflight(0)
    else:
        with pytest.raises(KvcalcError, match=said):
            faults.preflight(0)


@pytest.mark.parametrize("fails", ["before", "while"])
def test_a_point_that_does_not_fit_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch, fails: str) -> None:
    def point(_rig: Any, found: Any, _reading: Any, where: tuple[int, int], _asked: Any) -> None:
        if where[0] == 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        found.points.append(where)

    large = 10**18 if fails == "before" else 1
    monkeypatch.setattr(grids, "Reading", lambda _bench: None)
    monkeypatch.setattr(grids, "_cache_of", lambda _at, batch, *_: large if batch == 2 else 1)
    monkeypatch.setattr(grids, "_point", point)
    rig: Any = SimpleNamespace(bench=SimpleNamespace(device=Device("cpu")), at=None)

    def asked(batches: tuple[int, ...]) -> grids.Grid:
        return grids.Grid(batches, (64,), 64, False, 1.0, lambda *_: None)

    found = grids.measure_grid(rig, asked((1, 2, 3)))
    assert found.points == [(1, 64), (3, 64)]
    assert [text.partition(" is left out")[0] for text in found.said] == ["batch 2 at context 64"]
    with pytest.raises(KvcalcError, match="no point fits"):
        grids.measure_grid(rig, asked((2,)))


def calibrated(**other: object) -> CalibrateResult:
    """A device's calibration, as far as these tests look at it."""
    rate = {"latency_s": 1e-6, "bandwidth_bytes_per_s": 3e12}
    return CalibrateResult(**{
        "device": "NVIDIA H100 80GB HBM3", "kind": "cuda", "date": "2026-07-01T00:00:00", "versions": {},
        "memory_bytes": 80 * 10**9, "compute_capability": "9.0", "processors": 132, "l2_bytes": 50 * 2**20,
        "read_bandwidth_bytes_per_s": 3.0e12, "copy_bandwidth_bytes_per_s": 2.9e12, "peak_flops": {"bf16": 7e14},
        "dispatch_s": 1e-6, "linear": Rate(**rate), "attention": Rate(**rate), "linear_rows": (), "attention_rows": (),
        "glue_rows": (), "spread": {}, "state_before": {}, "state_after": {}, "quiet": True,
    } | other)  # fmt: skip


def test_a_gpu_far_below_its_data_sheet_is_doubted() -> None:
    sheet = load_gpu("h100-sxm")  # 3.35 TB/s
    assert doubts(calibrated(), sheet) == []
    (said,) = doubts(calibrated(read_bandwidth_bytes_per_s=2.5e12), sheet)
    assert "75% of the data sheet's bandwidth" in said
    assert doubts(calibrated(read_bandwidth_bytes_per_s=2.5e12), None) == []
    (said,) = doubts(calibrated(compute_capability="7.5"), sheet)
    assert "compute capability 7.5" in said


def test_a_home_that_cannot_be_written_is_named_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))  # a file where the folder should be: nobody can
    with pytest.raises(KvcalcError, match="no calibration can be kept") as caught:
        store.require_place(None)
    assert "--spec FILE" in caught.value.hint
    store.require_place(tmp_path / "spec.toml")
    kept = store.save(calibrated(), tmp_path / "spec.toml")
    assert kept.spec_file == str(tmp_path / "spec.toml")
    assert load_gpu(kept.spec_file).memory_bandwidth_bytes_per_s == 3.0e12
    assert store.save(calibrated()).spec_file is None
