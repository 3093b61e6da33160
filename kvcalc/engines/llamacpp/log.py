"""What llama.cpp's start-up log says in its own way.

Source: the rows of `engines/logs/logs.toml`, each with llama.cpp's file
"""

from typing import Any

from kvcalc.engines.logs.facts import LogFacts


def settings(facts: LogFacts) -> dict[str, Any]:
    """The types of keys and of values."""
    kinds = [cache for cache in facts.caches if cache.k_type]
    if not kinds:
        return {}
    key, value = kinds[0].k_type, kinds[0].v_type or kinds[0].k_type
    return {"kv_cache_dtype": key if key == value else f"{key},{value}"}
