"""The lessons write no logs: what a log says is read as vLLM's.

Source: a judgement: vLLM's settings are the most common
"""

from kvcalc.engines.logs.replicas import settings

__all__ = ["settings"]
