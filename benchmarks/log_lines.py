"""Does log reading find what the lines of a capacity case say: the part of accuracy_capacity.py that is about logs.

The record beside the lines was made by hand. Of its figures, those that stand in the lines must be read from them.
"""

from collections.abc import Callable, Iterable
from typing import Any

from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.read import read_log
from kvcalc.errors import KvcalcError
from kvcalc.units import GIB, MIB

Case = dict[str, Any]
Reading = Callable[[LogFacts], float | None]

ENGINES = {"vllm": "vllm", "sglang": "sglang", "llama.cpp": "llamacpp", "tensorrt-llm": "trtllm"}


def _setting(name: str) -> Reading:
    def read(facts: LogFacts) -> float | None:
        value = facts.settings.get(name)
        return value if isinstance(value, int | float) else None

    return read


def _first_cache(facts: LogFacts) -> float | None:
    """llama.cpp announces attention's cache first; older builds only its buffers."""
    sizes = (cache.size_bytes / MIB for cache in facts.caches if cache.size_bytes)
    return next(sizes, None if facts.pool_bytes is None else facts.pool_bytes / MIB)


# A figure of the record, how it is read from the facts, and what rounding may hide.
FIGURES: tuple[tuple[str, Reading, float], ...] = (
    ("kv_tokens", lambda facts: facts.tokens, 0),
    ("cells", lambda facts: facts.tokens, 0),
    ("available_kv_gib", lambda facts: None if facts.pool_bytes is None else facts.pool_bytes / GIB, 0.001),
    ("weights_gib_loaded", lambda facts: None if facts.weights_bytes is None else facts.weights_bytes / GIB, 0.006),
    ("max_concurrency", lambda facts: facts.concurrency, 0),
    ("gpu_blocks", lambda facts: facts.blocks, 0),
    ("max_model_len", _setting("max_model_len"), 0),
    ("gpu_memory_utilization", _setting("gpu_memory_utilization"), 0),
    ("size_mib", _first_cache, 0.01),
)


def log_lines(case: Case) -> Case:
    """`found` and `stated` figures of one case, and those that were missed.

    Args:
        case: a record of capacity.json with `raw_lines`.
    """
    text = "\n".join(case["raw_lines"])
    answer: Case = {"id": case.get("id"), "stated": 0, "missed": [], "reason": None}
    try:
        facts = read_log(text)
    except KvcalcError as error:
        return answer | {"reason": error.message}
    if facts.engine is not None and facts.engine != ENGINES.get(str(case.get("engine")), facts.engine):
        answer["missed"].append("engine")
    for name, reading, room in FIGURES:
        want = case.get(name)
        if not isinstance(want, int | float) or not _stands_in(want, text):
            continue
        answer["stated"] += 1
        have = reading(facts)
        if have is None or abs(have - want) > room:
            answer["missed"].append(name)
    return answer


def _stands_in(value: float, text: str) -> bool:
    return any(form in text for form in (f"{value:,}", str(value)))


def log_summary(answers: Iterable[Case]) -> dict[str, int]:
    every = list(answers)
    return {
        "cases": len(every),
        "read": sum(one["reason"] is None and not one["missed"] for one in every),
        "figures": sum(one["stated"] for one in every),
        "missed": sum(len(one["missed"]) for one in every),
    }
