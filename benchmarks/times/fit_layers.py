"""Kernels of whole layers as one engine launched them, for cards whose kernels nobody measured one by one.

`layers.json` says where they were measured and what each kind is. A GeForce card stands for its class: others' lacking
kernels are taken from its file. Elementwise work is one share of the bandwidth; attention beside a prompt is the larger
of what each head's row takes in a tile of its own and of the walk along one sequence (`timing/operators/attention.py`).
"""

import json
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from times.fit_kernels import FORMS, fit, predict
from times.least import robust_fit
from times.refit_kernels import rounded

from kvcalc.catalog.gpus import load_gpu
from kvcalc.specs.gpu import GpuSpec
from kvcalc.timing.operators.attention import TILE_ROWS
from kvcalc.timing.peaks import arithmetic

FILE = Path(__file__).with_name("layers.json")
CLASSES = {"rtx4090": "geforce"}  # whose kernel file a card's are
HIDDEN, WIDTH, HEADS, CACHED_HEADS, HEAD = 4096, 14336, 32, 8, 128
SOFT = 0.1
Case = dict[str, Any]
Fields = dict[str, Any]


def measured() -> dict[str, dict[str, list[Case]]]:
    """Cases by GPU and kind."""
    found: dict[str, dict[str, list[Case]]] = defaultdict(lambda: defaultdict(list))
    for case in json.loads(FILE.read_text(encoding="utf-8"))["cases"]:
        found[case["gpu"]][case["kind"]].append(case)
    return found


def evidence() -> str:
    """Where the cases are from."""
    said = json.loads(FILE.read_text(encoding="utf-8"))
    return f"{said['engine']}, layers of Llama-3.1-8B; from {said['source_url'].removeprefix('https://github.com/')}"


def fit_layers(rows: dict[str, list[Fields]]) -> dict[str, Fields]:
    """Values and rows by kernel file. `rows`: attention that was fitted otherwise, by GPU, for its latency."""
    found: dict[str, Fields] = {}
    for name, kinds in sorted(measured().items()):
        spec = load_gpu(name)
        made: Fields = {"elementwise_share": _elementwise(kinds["elementwise"], spec)}
        if "gemm" in kinds:
            made["gemm"] = [{"dtype": "bf16"} | _formed("k_gemm", [_product(one) for one in kinds["gemm"]], spec)]
        if "attention" in kinds:
            some = [_decode(one) for one in kinds["attention"]]
            made["attention"] = [{"dtype": "bf16", "library": "any"} | _formed("k_attn_decode", some, spec)]
        attention = next(row for row in made.get("attention", rows.get(name, ())) if row["dtype"] == "bf16")
        made |= _tiled(kinds["mixed"], spec, attention)
        found[CLASSES.get(name, name)] = rounded(made)
    return found


def _formed(group: str, cases: Sequence[Case], spec: GpuSpec) -> Fields:
    """A row of constants in the form that single kernels have."""
    form = next(one for one in FORMS if one.group == group)
    constants = fit(form, cases, spec)
    error = np.median(np.abs(predict(form, cases, spec, constants) / _seconds(cases, "value") - 1))
    named = dict(zip([one[0] for one in form.constants], constants, strict=True))
    return rounded(named | {"points": len(cases), "error": float(error)})


def _product(case: Case) -> Case:
    op = {name: case[name] for name in "mnk"}
    return {"op": op, "weights_dtype": "bf16", "value": case["us"]}


def _decode(case: Case) -> Case:
    op = {"heads": HEADS, "n_kv": CACHED_HEADS, "d_h": HEAD}
    lengths = {name: case[name] for name in ("batch", "context")}
    return {"op": op, "kv_dtype": "bf16", "value": case["us"]} | lengths


def _seconds(cases: Sequence[Case], name: str = "us") -> Any:
    return np.array([case[name] for case in cases]) * 1e-6


def _elementwise(cases: Sequence[Case], spec: GpuSpec) -> float:
    """The share of the bandwidth, by the median."""
    elements = 4 * HIDDEN + 2 * HEADS * HEAD + 3 * WIDTH  # as counting/operators/passes.py counts them
    moved = np.array([case["rows"] for case in cases]) * elements * 2
    return float(np.median(moved / _seconds(cases) / spec.memory_bandwidth_bytes_per_s))


def _tiled(cases: Sequence[Case], spec: GpuSpec, attention: Fields) -> Fields:
    """Share of the peak where each head's row has a tile of its own, and seconds for each token of one sequence."""
    batch, context = (np.array([case[name] for case in cases], dtype=float) for name in ("batch", "context"))
    measured_s, (_, peak) = _seconds(cases), arithmetic(spec, "bf16")
    read_s = 4 * CACHED_HEADS * HEAD * batch * context / spec.memory_bandwidth_bytes_per_s
    flops = TILE_ROWS * 4 * HEADS * HEAD * batch * context

    def predicted(values: Any) -> Any:
        tiles = np.maximum(flops / (values[0] * peak), context * values[1])
        return attention["latency_s"] + np.maximum(read_s / attention["bandwidth_share"], tiles)

    def residuals(values: Any) -> Any:
        return np.log(predicted(values) / measured_s)

    share, token_s = robust_fit(residuals, (0.5, 3e-8), (0.05, 1e-9), (2.0, 1e-6), SOFT)
    print(f"    {spec.name}: attention beside prompts {share:.3f} of the peak, {token_s * 1e9:.0f} ns a token, "
          f"error {np.median(np.abs(predicted((share, token_s)) / measured_s - 1)):.1%} of {len(cases)}")  # fmt: skip
    return {"tiled_share": float(share), "tiled_token_s": float(token_s)}
