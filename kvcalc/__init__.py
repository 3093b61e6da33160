"""kvcalc: capacity, speed and cost of an LLM deployment."""

__version__ = "0.1.0"
