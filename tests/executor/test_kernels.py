"""The Triton kernels: computed on a CPU by Triton's interpreter, and compiled for GPUs that are not here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kvcalc.executor.attention_triton import tilings, usual_tiling
from kvcalc.results.calibrate import Tiling

pytest.importorskip("triton")

HERE = Path(__file__).parent
LIMITS = {"fp32": 1e-6, "fp16": 1e-3, "bf16": 5e-3}

ATTENTION = [
    {"dtype": dtype, "group": group, "kv_heads": kv, "dim": dim, "page": page, "window": window, "lengths": lengths,
     "splits": splits, "tokens": tokens}
    for dtype, group, kv, dim, page, window, lengths, splits, tokens in [
        ("fp32", 4, 2, 64, 64, None, [1, 64, 65], 1, 64),
        ("fp32", 4, 1, 64, 16, None, [1, 63], 4, 64),
        ("fp32", 1, 2, 64, 64, None, [64, 150], 2, 64),
        ("fp32", 1, 1, 80, 16, 50, [51, 140], 2, 32),  # a window, and a width that is no power of two
        ("fp32", 2, 1, 32, 128, 70, [2, 200], 2, 64),
        ("fp32", 20, 1, 32, 32, None, [5, 90], 2, 32),  # more heads than a tile
        ("fp32", 8, 1, 256, 32, None, [3, 70], 1, 32),
        ("fp32", 3, 1, 64, 256, None, [1, 300], 8, 64),  # parts with nothing in them
        ("bf16", 4, 2, 128, 64, None, [1, 65], 2, 64),
        ("bf16", 1, 2, 64, 16, 40, [1, 90], 2, 128),
        ("bf16", 7, 1, 64, 32, 33, [34, 100], 4, 32),
        ("fp16", 4, 1, 64, 64, None, [64, 129], 2, 16),
        ("fp16", 1, 1, 128, 256, None, [3, 257], 1, 128),
    ]
]  # fmt: skip
GLUE = [{"dtype": dtype, "norms": norms} for dtype, norms in (("fp32", True), ("bf16", True), ("fp16", False))]


def run(script: str, cases: list[dict[str, Any]], **environment: str) -> list[dict[str, Any]]:
    """Every case in one other process: the interpreter is chosen when kernels are imported."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", HERE / script],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_kernels_compute_what_the_reference_does() -> None:
    cases = [{"kind": "attention", **case} for case in ATTENTION] + [{"kind": "glue", **case} for case in GLUE]
    cases.append({"kind": "read", "count": 100_000})
    results = run("interpreted.py", cases, TRITON_INTERPRET="1")
    assert len(results) == len(cases)
    assert results.pop()["error"] < 1e-6
    for result in results:
        # Without rounding of its own the glue may still round one place further on: an ulp of bf16 is 8e-3.
        limit = LIMITS[result["dtype"]] if result["kind"] == "attention" else 2 * LIMITS[result["dtype"]]
        assert result["error"] <= limit, result


def split(
    arch: int | str, page: int, dim: int, group: int, dtype: str = "bf16", tiling: Tiling | None = None
) -> dict[str, Any]:
    tiling = tiling or usual_tiling(dim)
    sizes = {"PAGE": page, "DIM": dim, "WIDTH": dim, "WINDOW": 0, "SPLITS": 8, "HEADS": 8 * group,
             "BLOCK": tiling.tokens, "INTERPRETED": False}  # fmt: skip
    if group == 1:
        return {"kernel": "single_kernel", "arch": arch, "dtype": dtype, "warps": tiling.warps, "constants": sizes}
    tiles = -(-group // 16)
    constants = {**sizes, "GROUP": group, "TILES": tiles}
    depth = {"warps": tiling.warps, "stages": tiling.stages}
    return {"kernel": "split_kernel", "arch": arch, "dtype": dtype, **depth, "constants": constants}


def others(arch: int) -> list[dict[str, Any]]:
    rotary = {"QUERY_HEADS": 32, "KV_HEADS": 8, "HALF": 64, "WIDTH": 64, "PAGE": 64, "NORM": True}
    sizes = {
        "join_kernel": {"DIM": 128, "WIDTH": 128, "SPLITS": 8},
        "norm_kernel": {"HIDDEN": 4096, "WIDTH": 4096, "ADD": True},
        "rotary_kernel": rotary,
        "gate_kernel": {"COLUMNS": 14336, "BLOCK": 1024},
    }
    return [{"kernel": name, "arch": arch, "dtype": "bf16", "constants": one} for name, one in sizes.items()]


# Shared memory that one block may have (CUDA C++ Programming Guide, table of compute capabilities).
SHARED = {80: 163 * 1024, 86: 99 * 1024, 89: 99 * 1024, 90: 227 * 1024, 100: 227 * 1024, 120: 99 * 1024}


WHOLLY = (90,)  # on the others attention alone is compiled, which takes the most registers and shared memory


def test_kernels_compile_without_spilling(tmp_path: Path) -> None:
    larger = [tiling for tiling in tilings(128, 4) if tiling.tokens >= 64 and tiling != usual_tiling(128)]
    cases = [*(split(90, 64, 128, 4, tiling=tiling) for tiling in larger), split(90, 64, 128, 1, tiling=larger[1])]
    for arch in SHARED:
        cases += [split(arch, 64, 128, 4), split(arch, 64, 128, 1)]
        if arch in WHOLLY:
            cases += [split(arch, 16, 128, 4), split(arch, 64, 64, 3, "fp16"), *others(arch)]
    environment = {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    results = run("compiled.py", cases, **environment)
    assert len(results) == len(cases)
    for case, result in zip(cases, results, strict=True):
        assert result["local"] == 0, result  # spilled registers live in local memory
        assert result["stack"] == 0, result
        assert result["reg"] <= 128, result  # 65,536 registers hold four programs of 128 threads
        assert result["shared"] <= SHARED[case["arch"]], result
    shared = [result["shared"] for result in results]
    in_flight = {n: shared[cases.index(split(90, 64, 128, 4, tiling=Tiling(tokens=64, stages=n)))] for n in (2, 3, 4)}
    tile = 2 * 64 * 128 * 2  # keys and values of 64 tokens, 128 elements of two bytes
    assert in_flight[3] - in_flight[2] == in_flight[4] - in_flight[3] == tile  # a stage more is a tile more


def test_kernels_compile_for_amd(tmp_path: Path) -> None:
    environment = {"TRITON_CACHE_DIR": str(tmp_path), "TRITON_INTERPRET": "0"}
    for result in run("compiled.py", [split("gfx942", 64, 128, 4), split("gfx942", 64, 128, 1)], **environment):
        assert result["shared"] <= 64 * 1024, result  # of a compute unit's local data share
