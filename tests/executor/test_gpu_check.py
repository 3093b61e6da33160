"""benchmarks/gpu_check.sh, end to end: on a CPU with benchmarks of next to nothing, and where a driver is too old."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parents[2]
# What `python` is while it runs: kvcalc with small benchmarks.
SMALL = """\
from kvcalc.executor import microbench, microbench_layer, points, quiet, timing
from kvcalc.executor.device import Device
microbench.READ_BYTES, microbench.SQUARE, microbench.HEAD = {"cpu": 2**16}, {"cpu": 32}, (64, 96)
microbench.MATRICES = {"cpu": ((32, 32), (64, 96), (128, 256))}
Device.rotated_bytes = 2**16
microbench_layer.CACHES = {"cpu": ((1, 32), (2, 64), (2, 128))}
microbench_layer.SKELETONS = (1, 256, 64, 50), (2, 256, 64, 100), (1, 512, 128, 200)
microbench_layer.SKELETON_ROWS = (1, 4)
timing.WINDOW_S, timing.TRIES, points.TRIES, quiet.GLANCE_S = 1e-4, 1, 1, 0.0
quiet.Others.share = lambda self: 0.0
for module in (quiet, points):
    module.moved = lambda *bandwidths: False
"""


def checked(tmp_path: Path, **more: str) -> dict[str, Any]:
    """The script's JSON."""
    (tmp_path / "sitecustomize.py").write_text(SMALL)
    environment = {**os.environ, "PYTHON": sys.executable, "PYTHONPATH": f"{tmp_path}:{ROOT}", "OMP_NUM_THREADS": "1"}
    out = tmp_path / "out.json"
    done = subprocess.run(
        [ROOT / "benchmarks" / "gpu_check.sh", out], capture_output=True, text=True, env={**environment, **more}
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    found: dict[str, Any] = json.loads(out.read_text())
    assert found["passed"]
    return found


def test_the_same_motions_without_a_gpu(tmp_path: Path) -> None:
    steps = checked(tmp_path, DEVICE="cpu", QUICK="1")["steps"]
    assert list(steps) == ["cold-run", "calibrate", "probe", "no-compiler", "second-gpu"]
    assert steps["cold-run"]["answer"]["result"]["accuracy"]["points"] == 2
    probe = steps["probe"]["answer"]
    assert [point["same_tokens"] for point in probe["points"]] == [True, True]
    assert set(probe["read_bytes_per_s"]) == {"sum", "copy"}
    assert [row["bytes"] for row in probe["attention"]] == [32768, 65536, 98304]  # 64 tokens × 2 × 4 × 32 × 2 B


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_driver_that_pytorch_cannot_use(tmp_path: Path) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho 'NVIDIA H100 80GB HBM3'\n")
    tool.chmod(0o755)
    steps = checked(tmp_path, PATH=f"{tmp_path}:{os.environ['PATH']}", DEVICE="cuda")["steps"]
    assert list(steps) == ["old-driver", "unasked"]
    assert all("error: " in step["said"] and "hint: " in step["said"] for step in steps.values())
