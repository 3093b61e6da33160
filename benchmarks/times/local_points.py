"""Results of llama-bench as points: a deployment as a command line would say it, and the steps that it times.

A row of `llama_bench.json` has a config (a folder of model configs) or dims, a file type, a device, a backend and a
test: `tg` decodes from an empty cache or at a depth, `pp` runs a prompt by ubatches.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from times.shapes import shape

from kvcalc.catalog.ggml import local_parts, month_of
from kvcalc.catalog.gpus import load_gpu
from kvcalc.catalog.models import load_model
from kvcalc.catalog.quantization.online import requantize
from kvcalc.counting.params import active_parameters
from kvcalc.counting.work import Operator, Step
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec
from kvcalc.timing.machine import machine_of
from kvcalc.timing.operators.ggml import busy_share, pipelined
from kvcalc.timing.replica import Replica

Row = Mapping[str, Any]
UBATCH = 512
CACHES = {"f16": "fp16", "q8_0": "int8", "q4_0": "int4"}
# llama-bench's `-fa` was 0 unless given, long after the server's was auto; its help of early 2026 says auto.
BENCH_FLASH = "2026-03"
MOST_STARTS = 8  # of the ubatches of one prompt: more are counted at so many depths
NAMES = {"CUDA": "cuda", "HIP": "hip", "Vulkan": "vulkan", "Metal": "metal", "SYCL": "sycl"}


@dataclass(frozen=True)
class LocalPoint:
    """One measurement: what was run, the steps it consists of, and its seconds."""

    row: Row
    replica: Replica
    steps: tuple[tuple[float, Step], ...]  # how often, and which
    measured_s: float
    stages: int = 1

    @property
    def decodes(self) -> bool:
        return bool(self.row["test"] == "tg")

    @property
    def device(self) -> str:
        """What is left out together: a chip in all its memory sizes."""
        return chip(self.replica.machine.gpu.name)

    @property
    def pipeline(self) -> float:
        """A prompt's ubatches pass the stages one behind the other."""
        ubatches = sum(often for often, _ in self.steps)
        busy = busy_share(local_parts().split, self.stage_parameters)
        return 1.0 if self.decodes else pipelined(ubatches, self.stages, busy) / ubatches

    @property
    def stage_parameters(self) -> float:
        return active_parameters(self.replica.model) / self.stages

    def operators(self) -> list[tuple[float, Operator]]:
        return [(often, one) for often, step in self.steps for one in self.replica.operators(step)]


def chip(name: str) -> str:
    """A device's name without its memory size and number of cores.

    >>> chip("apple-m3-max-40c-64g"), chip("rtx4060ti-16g"), chip("h100-sxm")
    ('apple-m3-max', 'rtx4060ti', 'h100-sxm')
    """
    parts = [part for part in name.split("-") if not (part[:-1].isdigit() and part[-1] in "gc")]
    return "-".join(parts)


def steps_of(row: Row) -> tuple[tuple[float, Step], ...]:
    """The steps of a test: one decode step at the mean depth, or the ubatches of a prompt."""
    depth, tokens = row.get("depth") or 0, row["n"]
    if row["test"] == "tg":
        return ((1, Step(decode=row.get("batch") or 1, context=depth + tokens / 2)),)
    ubatch = min(row.get("ubatch") or UBATCH, tokens)
    number = ceil(tokens / ubatch)
    shown = min(number, MOST_STARTS)
    size = tokens / number
    return tuple(
        (number / shown, Step(prompts=1, tokens=size, start=depth + size * (number / shown * (index + 0.5) - 0.5)))
        for index in range(shown)
    )


def version_of(row: Row) -> str | None:
    """The build where it is one, else the date."""
    build = str(row.get("build") or "")
    if build[:1] == "b" and build[1:].isdigit():
        return build
    if "Dec 2025" in build:
        return "2025-12"
    date = str(row.get("date") or "")
    return date[:7] if date[4:5] == "-" and date[5:7].isdigit() else date[:4] or None


def flash_of(row: Row) -> str:
    """What a row says; where it says nothing, llama-bench's own default."""
    said = row.get("flash_attention")
    if said is None:
        return "auto" if month_of(version_of(row)) >= BENCH_FLASH else "off"
    return "on" if said else "off"


@cache
def _loaded(config: str) -> ModelSpec:
    return load_model(config)


@cache
def _model(config: str, dims: str, quant: str) -> ModelSpec:
    model = _loaded(config) if config else replace(shape(json.loads(dims), "bf16"), dtype="fp16")
    return requantize(model, quant, rules("llamacpp").QUANTIZATIONS, "llamacpp")


def model_of(row: Row, configs: Path) -> ModelSpec:
    """The model of a row: its config's or dims' shape in its file type.

    Raises:
        KvcalcError: neither is stated, or the file type is not known.
    """
    if row.get("config"):
        return _model(str(configs / row["config"]), "", row["quant"])
    if "dims" not in row:
        raise KvcalcError("the row states neither a config nor dims", hint="state one")
    return _model("", json.dumps(row["dims"]), row["quant"])


def deployment_of(row: Row) -> Deployment:
    """As flags would say it."""
    said = {
        "engine": "llamacpp",
        "engine_version": version_of(row),
        "backend": NAMES.get(str(row["backend"]).rstrip("?")),
        "flash_attn": flash_of(row),
        "kv_cache_dtype": row.get("kv") or "auto",
        "ubatch_size": row.get("ubatch"),
        "pipeline_parallel_size": row.get("n_gpus") or 1,
    }
    return checked(Deployment, said)


CASE_TYPES = {"q4_k_m": "Q4_K_M", "f16": "F16", "q4_0": "Q4_0", "mxfp4": "MXFP4_MOE"}
SCOREBOARD = "2025-12"  # of "2025-26 scoreboard"
USUAL_CONTEXT = 128  # where a case states none


def row_of_case(case: Row) -> dict[str, Any]:
    """A llama.cpp case of `perf_cases/` as a row of llama-bench.

    Raises:
        KvcalcError: it measures something else.
    """
    decodes = "decode" in case["metric"]
    if not decodes and "prefill" not in case["metric"]:
        raise KvcalcError(f"{case['metric']} is no test of llama-bench", hint="give a decode or a prefill")
    said = str(case.get("engine_version", ""))
    return {
        "id": case["id"],
        "model": case.get("model"),
        "gpu": case["gpu"],
        "n_gpus": case.get("n_gpus") or 1,
        "backend": "Metal" if load_gpu(case["gpu"]).vendor == "Apple" else "CUDA",
        "test": "tg" if decodes else "pp",
        "n": 0 if decodes else case["input_len"],
        "depth": (case.get("context") or USUAL_CONTEXT) if decodes else 0,
        "batch": case.get("batch") or 1,
        "dims": case["dims"],
        "quant": CASE_TYPES[case["weights_dtype"]],
        "kv": "f16",
        "date": SCOREBOARD if said.startswith("2025-26") else said,
        "tokens_per_s": case["value"],
        "quality": case.get("quality", 1),
    }


def point_of(row: Row, configs: Path) -> LocalPoint:
    """The point of a row.

    Raises:
        KvcalcError: it cannot be expressed.
    """
    gpu = load_gpu(row["gpu"])
    deployment = deployment_of(row)
    replica = Replica(
        model=model_of(row, configs),
        layout=deployment.layout,
        machine=machine_of(gpu, deployment),
        cache_dtype=CACHES[row.get("kv") or "f16"],
        budget=row.get("ubatch") or UBATCH,
    )
    tokens = row.get("batch") or 1 if row["test"] == "tg" else row["n"] * (row.get("batch") or 1)
    return LocalPoint(row, replica, steps_of(row), tokens / row["tokens_per_s"], row.get("n_gpus") or 1)
