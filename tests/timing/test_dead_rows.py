"""No dead kernel rows: each is taken by a step of some deployment, or says that it is of a kernel measured alone."""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question, placed, unplaced
from kvcalc.catalog.gpus import all_gpus
from kvcalc.catalog.kernels import load_kernels
from kvcalc.catalog.models import load_model
from kvcalc.counting.work import Step
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import field_names, replace
from kvcalc.specs.gpu import GpuSpec
from kvcalc.specs.kernels import GemmKernel, Kernels
from kvcalc.timing import machine as machines
from kvcalc.timing.passes import Pass

ROWS = ("gemm", "attention", "latent_attention", "prefill_attention", "experts", "all_reduce")
STEPS = (Step(decode=1, context=1000), Step(decode=256, context=1000), Step(prompts=1, tokens=2000))
# Formats of weights and caches, kinds of attention, experts.
MODELS: tuple[tuple[str, dict[str, str]], ...] = (
    ("llama-3-8b", {}), ("llama-3-8b", {"quantization": "fp8", "kv_cache_dtype": "fp8"}),
    ("llama-3-8b", {"quantization": "fp8_per_block"}), ("llama-3-8b", {"quantization": "awq"}),
    ("llama-3-8b", {"quantization": "nvfp4"}), ("llama-3-8b", {"quantization": "mxfp4"}),
    ("llama-3-8b", {"quantization": "w8a16"}), ("qwen3-30b-a3b", {}), ("qwen3-30b-a3b", {"quantization": "fp8"}),
    ("qwen3-30b-a3b", {"quantization": "awq"}), ("qwen3-30b-a3b", {"quantization": "nvfp4"}), ("gpt-oss-120b", {}),
    ("deepseek-v2-lite", {}), ("deepseek-v3", {"kv_cache_dtype": "fp8"}),
)  # fmt: skip
LAYOUTS: tuple[dict[str, Any], ...] = (
    *({"tensor_parallel_size": size} for size in (2, 4, 8)),
    *({"data_parallel_size": size, "enable_expert_parallel": True, **node}
      for size in (2, 4, 8) for node in ({}, {"gpus_per_node": 1, "network_bandwidth_bytes_per_s": "50GB"})),
)  # fmt: skip
ENGINES = ("vllm", "sglang", "trtllm")


def questions() -> Iterator[Question]:
    """Every format on one GPU, and every layout of one model of each kind."""
    for (model, flags), engine in product(MODELS, ENGINES):
        yield from _asked(model, {"engine": engine, **flags})
    for layout, engine in product(LAYOUTS, ENGINES):
        model = "qwen3-30b-a3b" if "enable_expert_parallel" in layout else "llama-3-8b"
        yield from _asked(model, {"engine": engine, **layout})


def _asked(model: str, flags: dict[str, Any]) -> Iterator[Question]:
    try:
        yield unplaced(model, flags, load=cached)
    except KvcalcError:
        return


cached = cache(load_model)


class Watch:
    """Kernels whose rows tell when one of them is taken."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, str, str]] = set()
        self.all: dict[tuple[str, str, str], Any] = {}
        self._kinds: dict[tuple[type, str], type] = {}
        self._made: dict[str, Kernels] = {}

    def kernels(self, gpu: GpuSpec) -> Kernels:
        """Of a GPU, watched."""
        if gpu.name not in self._made:
            found = load_kernels(gpu)
            rows = {name: tuple(self._row(name, row) for row in getattr(found, name)) for name in ROWS}
            self._made[gpu.name] = replace(found, **rows)
        return self._made[gpu.name]

    def _row(self, name: str, row: Any) -> Any:
        key, taken = (name, type(row).__name__, repr(row)), self.taken
        self.all[key] = row

        def get(self: Any, field: str) -> Any:
            if field == "latency_s":
                taken.add(key)
            return object.__getattribute__(self, field)

        watched = object.__new__(type("Watched", (type(row),), {"__getattribute__": get}))
        for field in field_names(type(row)):
            object.__setattr__(watched, field, getattr(row, field))
        return watched


def measured_alone(row: Any) -> bool:
    """A row that says of itself that no step takes it: launched without a graph, or slower than what engines choose."""
    if isinstance(row, GemmKernel):
        return not row.graph
    return getattr(row, "chosen", True) is False or getattr(row, "link_share", 1) is None


def unreached(watch: Watch) -> list[str]:
    classes = {(load_kernels(gpu).like or gpu.name, gpu.vendor, gpu.architecture): gpu for gpu in all_gpus()}
    for question, gpu in product(questions(), classes.values()):
        try:
            deployed = Deployed(placed(question, gpu))
            for step in STEPS:
                assert Pass(deployed.replica, step).estimate is not None
        except KvcalcError:
            continue
    return sorted(key[2] for key, row in watch.all.items() if key not in watch.taken and not measured_alone(row))


def test_every_kernel_row_is_taken_by_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    monkeypatch.setattr(machines, "load_kernels", watch.kernels)
    assert not unreached(watch)
