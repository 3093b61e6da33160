"""A bound is a bound: a part of `benchmarks/bounds.py`'s sweep over all cards and GPUs, of every engine."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "benchmarks" / "bounds.py"

EVERY = 1499  # of some 87,000 pairs


@pytest.fixture(scope="module")
def bounds() -> Any:
    spec = importlib.util.spec_from_file_location("bounds", PATH)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["bounds"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("engine, said", [
    ("vllm", {}), ("sglang", {}), ("trtllm", {}), ("llamacpp", {}),
    ("llamacpp", {"quantization": "q4_k_m"}),  # multiplied in whole numbers, whose peak is above half precision's
    ("vllm", {"engine_version": "0.6.3"}),  # quicker with prompts than the kernels that were measured
    ("trtllm", {"engine_version": "0.7"}),
])  # fmt: skip
def test_no_estimate_is_below_its_bound(bounds: Any, engine: str, said: dict[str, str]) -> None:
    found = bounds.swept(engine, EVERY, said)
    assert found.broken == ()
    assert found.points > 400


def test_the_sweep_can_fail(bounds: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound at a hundredth of the bandwidth is above every decode step."""
    from kvcalc.timing import passes

    sound = passes.bound
    monkeypatch.setattr(passes, "bound", lambda operators, gpu: sound(operators, gpu)._replace(memory_time_s=1e6))
    broken = bounds.swept("vllm", 40_009).broken
    assert broken
    assert all(one.bound_s > one.low_s for one in broken)
