"""kvcalc: capacity, speed and cost of an LLM deployment. One function a command, its keywords the command's flags.

>>> import kvcalc
>>> r = kvcalc.size("llama-3-8b", gpu="h100-sxm", engine="ideal", kv_memory="50GB", context=2048)
>>> r.result.max_batch
186

Attributes of a result are the JSON's keys; `r.to_json()` is what `kvcalc size --json` prints. The formulas of the
literature are in `kvcalc.formulas`, one function each. Names are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvcalc.api.commands import check as check
    from kvcalc.api.commands import compare as compare
    from kvcalc.api.commands import curve as curve
    from kvcalc.api.commands import diagnose as diagnose
    from kvcalc.api.commands import gpus as gpus
    from kvcalc.api.commands import kv as kv
    from kvcalc.api.commands import models as models
    from kvcalc.api.commands import plan as plan
    from kvcalc.api.commands import prefill as prefill
    from kvcalc.api.commands import simulate as simulate
    from kvcalc.api.commands import size as size
    from kvcalc.api.commands import speculate as speculate
    from kvcalc.api.commands import step as step
    from kvcalc.api.files import load_gpu as load_gpu
    from kvcalc.api.files import load_model as load_model
    from kvcalc.api.files import read_budget as read_budget
    from kvcalc.errors import KvcalcError as KvcalcError
    from kvcalc.formulas.sampling import acceptance_rate as acceptance_rate
    from kvcalc.formulas.sampling import emitted_distribution as emitted_distribution
    from kvcalc.formulas.sampling import speculative_round as speculative_round
    from kvcalc.results.base import Range as Range
    from kvcalc.specs.budget import Budget as Budget
    from kvcalc.specs.gpu import GpuSpec as GpuSpec
    from kvcalc.specs.model import ModelSpec as ModelSpec

__version__ = "0.1.0"

# public name → the module that has it
_HOME = {
    **dict.fromkeys(
        (
            *("size", "kv", "step", "compare", "curve", "simulate", "check", "speculate", "prefill", "diagnose"),
            *("plan", "models", "gpus"),
        ),
        "kvcalc.api.commands",
    ),
    **dict.fromkeys(("load_model", "load_gpu", "read_budget"), "kvcalc.api.files"),
    "KvcalcError": "kvcalc.errors",
    "ModelSpec": "kvcalc.specs.model",
    "GpuSpec": "kvcalc.specs.gpu",
    "Budget": "kvcalc.specs.budget",
    "Range": "kvcalc.results.base",
    **dict.fromkeys(("speculative_round", "acceptance_rate", "emitted_distribution"), "kvcalc.formulas.sampling"),
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kvcalc' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
