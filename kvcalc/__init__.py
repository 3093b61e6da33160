"""kvcalc: capacity, speed and cost of an LLM deployment.

>>> import kvcalc
>>> question = kvcalc.ask("llama-3-8b", {"gpu": "h100-sxm", "engine": "ideal", "kv_memory_bytes": "50GB",
...                                      "context": "2048"})
>>> kvcalc.size(question).result.max_batch
186

The formulas of the literature are in `kvcalc.formulas`, one function each. Names are loaded on first use.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

# public name → the module that has it
_HOME = {
    "KvcalcError": "kvcalc.errors",
    "ModelSpec": "kvcalc.specs.model",
    "GpuSpec": "kvcalc.specs.gpu",
    "Deployment": "kvcalc.specs.deployment",
    "Workload": "kvcalc.specs.load",
    "load_model": "kvcalc.catalog.models",
    "load_gpu": "kvcalc.catalog.gpus",
    "CacheProfile": "kvcalc.counting.cache",
    "cache_profile": "kvcalc.counting.cache",
    "total_parameters": "kvcalc.counting.params",
    "weight_bytes": "kvcalc.counting.weights",
    "decode_step": "kvcalc.counting.operators.passes",
    "Question": "kvcalc.answers.question",
    "ask": "kvcalc.answers.question",
    "size": "kvcalc.answers.size.answer",
    "rank": "kvcalc.answers.size.ranking",
    "kv": "kvcalc.answers.kv.answer",
    "step": "kvcalc.answers.step.answer",
    "curve": "kvcalc.answers.curve.answer",
    "compare": "kvcalc.answers.compare.answer",
    "check": "kvcalc.answers.check.answer",
    "diagnose": "kvcalc.answers.diagnose.answer",
    "prefill": "kvcalc.answers.prefill.answer",
    "PrefillSettings": "kvcalc.answers.prefill.answer",
    "speculate": "kvcalc.answers.speculate.answer",
    "SpeculateSettings": "kvcalc.answers.speculate.answer",
    "speculative_round": "kvcalc.formulas.sampling",
    "acceptance_rate": "kvcalc.formulas.sampling",
    "emitted_distribution": "kvcalc.formulas.sampling",
    "explain": "kvcalc.answers.explain",
}

__all__ = ["__version__", *_HOME]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'kvcalc' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
