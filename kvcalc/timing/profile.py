"""Profiles: what an engine of some version adds to its kernels, from `engines.toml`.

A profile belongs to an engine, a span of versions and a way of running; never to a model.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Profile:
    """Constants of one engine and span of versions. Seconds; factors multiply."""

    name: str
    engine: str
    library: str = "vllm"  # whose attention and all-reduce kernels it runs
    step_s: float = 0  # once a step: scheduler, sampling kernel, launch
    moe_step_s: float = 0  # once a step more where the model has experts
    sequence_s: float = 0  # for each sequence of a step
    layer_s: float = 0  # for each layer: launches that no graph hides
    prefill_factor: float = 1
    collective_factor: float = 1
    routing_exponent: float = 1  # tokens agree on experts: B tokens touch as many as B ** exponent independent ones
    grouped_query_reread: float = 0  # share of the cache read again for each further query head of a group
    evidence: str = ""
    points: int = 0
    error: float = 0
