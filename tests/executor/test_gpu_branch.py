"""The whole branch for GPUs on a CPU: streams, graphs and events are stand-ins, and the kernels PyTorch's own.

What the kernels compute is tested beside them; here is what is done with them. A graph runs its step the first time it
is replayed, which is when its tokens are compared, and then no more: the time of a call is made up.
"""

import gc
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest
import torch
from executor.models import CONFIG

from kvcalc.cli.app import run
from kvcalc.executor import device as devices
from kvcalc.executor import faults, grid, loop, microbench, microbench_layer, points, timing
from kvcalc.executor.attention import attend_pages, prepare_pages
from kvcalc.executor.attention_triton import TritonAttention, tilings, usual_tiling
from kvcalc.executor.cache import Cache
from kvcalc.executor.device import Device
from kvcalc.executor.glue import TorchGlue
from kvcalc.results.calibrate import Tiling
from kvcalc.specs.base import replace

MEMORY = 2**34
CALL_MS = 25.0  # more than a window: each holds one call
Call = Callable[[str], dict[str, Any]]


class Graph:
    """Runs what it has captured once; `again` instead of it where that is wrong."""

    tokens_of = staticmethod(lambda step: step())

    def __init__(self) -> None:
        self.step: Any = None

    def replay(self) -> None:
        if self.step is not None:
            Graph.tokens_of(self.step)
        self.step = None


class Event:
    """On this device every call takes as long."""

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        """Nothing waits."""

    synchronize = record

    def elapsed_time(self, _stop: "Event") -> float:
        return CALL_MS


@contextmanager
def capturing(graph: Graph) -> Iterator[None]:
    graph.step = sys._getframe(2).f_locals["step"]
    yield


@contextmanager
def on_stream(_stream: Any) -> Iterator[None]:
    yield


def launched(self: TritonAttention, *given: Any) -> torch.Tensor:
    """In place of the kernel: as deep a pipeline as fits, which is two stages on this device."""
    tiling = self.tiling or usual_tiling(given[0].shape[-1])
    self.tiling = replace(tiling, stages=min(2, tiling.stages))
    return attend_pages(*given)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One calibration serves all of these tests, as it serves commands."""
    return tmp_path_factory.mktemp("kept")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, kept: Path) -> None:
    """A GPU in place of PyTorch's, and benchmarks of next to nothing."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(kept))
    stream = SimpleNamespace(wait_stream=lambda _other: None)
    properties = SimpleNamespace(total_memory=MEMORY, multi_processor_count=4, L2_cache_size=2**14, uuid="12ab")
    stand_ins: dict[str, Any] = {
        "is_available": lambda: True, "device_count": lambda: 1, "set_device": lambda _index: None,
        "get_device_name": lambda _index: "NVIDIA H100 80GB HBM3", "get_device_properties": lambda _index: properties,
        "get_device_capability": lambda _index: (9, 0), "mem_get_info": lambda _index: (MEMORY, MEMORY),
        "synchronize": lambda _index: None, "Stream": lambda _device: stream, "current_stream": lambda _device: stream,
        "stream": on_stream, "graph": capturing, "CUDAGraph": Graph, "Event": Event,
    }  # fmt: skip
    for name, value in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, value)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(Device, "torch", property(lambda _self: torch.device("cpu")))
    monkeypatch.setattr(devices, "preflight", lambda _index: None)
    monkeypatch.setattr(TritonAttention, "prepare", lambda _self, view, dtype: prepare_pages(view, dtype))
    monkeypatch.setattr(TritonAttention, "__call__", launched)
    monkeypatch.setattr(loop, "glue_for", lambda _device: TorchGlue())
    small = {
        "READ_BYTES": {"cuda": 2**14}, "SQUARE": {"cuda": 32}, "MATRICES": {"cuda": ((32, 32), (64, 96), (128, 256))},
        "HEAD": (64, 96), "WARM_S": 0.0, "BUSY_CALLS": 1, "ways_to_read": lambda buffer: [lambda: buffer.sum()],
    }  # fmt: skip
    for name, value in small.items():
        monkeypatch.setattr(microbench, name, value)
    monkeypatch.setattr(microbench_layer, "CACHES", {"cuda": ((1, 32), (2, 64), (2, 128))})
    monkeypatch.setattr(microbench_layer, "SKELETONS", ((1, 256, 64, 50), (2, 256, 64, 100), (1, 512, 128, 200)))
    monkeypatch.setattr(microbench_layer, "SKELETON_ROWS", (1, 4))
    monkeypatch.setattr(microbench_layer, "LEAST_LAYERS", 1)
    monkeypatch.setattr(timing, "TRIES", 1)
    monkeypatch.setattr(points, "TRIES", 1)


@pytest.fixture
def call(gpu: None, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Call:
    """A command on that GPU; `MODEL` in the line is a small one."""
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))

    def called(line: str) -> dict[str, Any]:
        code = run(f"{line} --device cuda --json".replace("MODEL", str(tmp_path / "config.json")).split())
        out, err = capsys.readouterr()
        assert code == 0, err
        return {**json.loads(out), "err": err}

    return called


LINE = "run MODEL --batch 1 --batch 2 --context 20 --block-size 16"


def test_a_gpu_is_calibrated_once_and_its_tiles_are_used(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    first = call("calibrate --block-size 16 --head-dim 32 --group 2")["result"]
    (row,) = first["attention_rows"]
    assert row["tiling"] == {"tokens": 64, "warps": 4, "stages": 2}  # what was launched of the first that was tried
    used: list[Tiling | None] = []
    made = TritonAttention.__init__

    def noted(self: TritonAttention, *given: Any) -> None:
        made(self, *given)
        used.append(self.tiling)

    monkeypatch.setattr(TritonAttention, "__init__", noted)
    monkeypatch.setattr(microbench, "matmul_peak", None)  # measured once and kept
    found = call(LINE)["result"]
    assert found["calibrated"] == first["date"]
    assert found["correct"]["passed"]
    assert [point["term"] for point in found["points"]] == ["step", "weights", "kv", "overhead"] * 2
    assert set(used) == {Tiling(tokens=64, warps=4, stages=2)}  # of verified and of timed steps


def test_the_quickest_tiles_are_taken(gpu: None) -> None:
    times = iter([3.0, 4.0, 2.0, *[5.0] * 20])
    bench: Any = SimpleNamespace(
        device=Device("cuda"), glance=lambda step: step() or SimpleNamespace(value=next(times))
    )
    heads = microbench_layer.Heads("fp32", 2, 32, 16)
    linears = microbench.matrices(bench.device, "fp32", 0)
    with torch.inference_mode():
        found = microbench_layer.quickest_tiling(bench, heads, linears)
    assert found == replace(tilings(32, 2)[2], stages=2)


def test_no_cache_outlives_its_point(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    caches = WeakSet[Cache]()
    made, point, alive = Cache.__init__, grid._point, list[int]()

    def watched(self: Cache, *given: Any, **named: Any) -> None:
        made(self, *given, **named)
        caches.add(self)

    def counted(*given: Any) -> None:
        alive.append(len(caches))
        point(*given)

    monkeypatch.setattr(Cache, "__init__", watched)
    monkeypatch.setattr(grid, "_point", counted)
    gc.disable()  # as in a command
    try:
        call(LINE)
        assert alive == [0, 0]
        assert len(caches) == 0
    finally:
        gc.enable()


def test_a_graph_with_other_tokens_is_said(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "other tokens" not in call(LINE)["err"]
    monkeypatch.setattr(Graph, "tokens_of", staticmethod(lambda _step: None))
    assert call(LINE)["err"].count("the timed step gives other tokens than the verified one") == 2


def test_a_point_out_of_memory_leaves_the_others(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    place = faults_at(monkeypatch, batch=1)
    found = call(LINE)
    assert place == [1]
    assert {point["batch"] for point in found["result"]["points"]} == {2}
    assert "batch 1 at context 20 is left out: the device ran out of memory" in found["err"]


def faults_at(monkeypatch: pytest.MonkeyPatch, batch: int) -> list[int]:
    """Memory runs out while the point of this batch is prepared."""
    prepared, failed = grid.decoder_for, list[int]()

    def decoder(bench: Any, weights: Any, numerics: Any, contexts: list[int], *more: Any) -> Any:
        if len(contexts) == batch:
            failed.append(batch)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")
        return prepared(bench, weights, numerics, contexts, *more)

    monkeypatch.setattr(grid, "decoder_for", decoder)
    assert faults.is_memory(torch.OutOfMemoryError("x"))
    return failed
