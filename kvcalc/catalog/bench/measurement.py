"""What a benchmark measured, whatever wrote it."""

from typing import NamedTuple


class Served(NamedTuple):
    """Requests served together: mean lengths in tokens, mean latencies in seconds."""

    input_len: float
    output_len: float
    concurrency: float  # requests in flight on average
    num_prompts: int
    ttft_s: float | None
    tpot_s: float | None
    source: str
    together: bool = True  # the first requests came all at once, as in a closed loop; else one after the other


class Timed(NamedTuple):
    """One test of llama-bench: a decode step of a batch at a context, or a prompt after a depth."""

    decodes: bool
    tokens: int  # generated, or of the prompt
    depth: int
    batch: int
    seconds: float  # of a step, or of the prompt
    source: str
    settings: tuple[tuple[str, int | str], ...] = ()  # of the deployment, as the result states them


Measurement = Served | Timed


def in_flight(requests: float, ttft_s: float, tpot_s: float, output_len: float, duration_s: float) -> float:
    """Requests in flight on average: Little's law, L = λ · W.

    Source: Little 1961, "A proof for the queuing formula L = λW".

    >>> in_flight(requests=100, ttft_s=1.0, tpot_s=0.1, output_len=11, duration_s=20.0)
    10.0
    """
    return max(1.0, requests * (ttft_s + (output_len - 1) * tpot_s) / duration_s)
