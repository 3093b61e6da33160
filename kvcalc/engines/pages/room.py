"""What most engines do with a pool: take as much of it as memory allows, and run as many sequences as have room.

Source: vLLM, TensorRT-LLM and the lessons' arithmetic; an engine that does otherwise has a function of its own
"""

from kvcalc.engines.capacity import Capacity
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec


def admitted(held: Capacity, deployment: Deployment) -> int | None:
    """None: the pool sets no limit but its room.

    Unit: sequences
    """
    return None


def asked(model: ModelSpec, deployment: Deployment, stages: list[frozenset[int]]) -> int | None:
    """None: the pool is as large as memory allows.

    Unit: bytes per GPU
    """
    return None
