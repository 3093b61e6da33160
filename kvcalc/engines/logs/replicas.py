"""Replicas of attention and the version, as the logs of several engines say them.

Source: dp_size and attn_tp_size in sglang/srt/layers/dp_attention.py
"""

from collections.abc import Mapping
from typing import Any

from kvcalc.engines.logs.facts import LogFacts, Value


def replicas(said: Mapping[str, Value]) -> dict[str, Any]:
    """SGLang's replicas take their ranks from tp_size, and share the experts."""
    dp, tp = said.get("data_parallel_size", 1), said.get("tensor_parallel_size", 1)
    ep = said.get("expert_parallel_size", 1)
    found: dict[str, Any] = {"data_parallel_size": dp}
    if isinstance(ep, int) and ep > 1:
        found["enable_expert_parallel"] = True
    if said.get("enable_dp_attention") and isinstance(dp, int) and isinstance(tp, int) and dp and tp % dp == 0:
        found |= {"tensor_parallel_size": tp // dp, "enable_expert_parallel": True}
    return found


def settings(facts: LogFacts) -> dict[str, Any]:
    """Replicas, and the version, as fields of a Deployment."""
    found = replicas(facts.settings)
    return found if facts.version is None else found | {"engine_version": facts.version}
