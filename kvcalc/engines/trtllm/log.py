"""What TensorRT-LLM's start-up log says in its own way.

Source: the rows of `engines/logs/logs.toml`, each with TensorRT-LLM's file
"""

from typing import Any

from kvcalc.engines.logs import replicas
from kvcalc.engines.logs.facts import LogFacts


def settings(facts: LogFacts) -> dict[str, Any]:
    """Replicas, tokens in a block, and the version."""
    found = replicas.settings(facts)
    return found | {"block_size": facts.block_size} if facts.block_size else found
