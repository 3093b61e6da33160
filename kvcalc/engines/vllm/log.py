"""What vLLM's start-up log says in its own way: what several engines' do."""

from kvcalc.engines.logs.replicas import settings

__all__ = ["settings"]
