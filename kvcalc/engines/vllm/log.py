"""What vLLM's start-up log says in its own way.

Source: the rows of `engines/logs/logs.toml`, each with vLLM's file
"""

from typing import Any

from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.replicas import replicas


def settings(facts: LogFacts) -> dict[str, Any]:
    """Replicas, and the version."""
    found = replicas(facts.settings)
    return found if facts.version is None else found | {"engine_version": facts.version}
