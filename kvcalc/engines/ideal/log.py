"""The lessons write no logs: what a log says is read as vLLM's.

Source: a judgement: vLLM's settings are the most common
"""

from typing import Any

from kvcalc.engines.logs.facts import LogFacts
from kvcalc.engines.logs.replicas import replicas


def settings(facts: LogFacts) -> dict[str, Any]:
    """Replicas, and the version."""
    found = replicas(facts.settings)
    return found if facts.version is None else found | {"engine_version": facts.version}
