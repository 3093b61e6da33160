"""The load of a trace: its mean request, and the rate of its busiest stretch."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption

STRETCH_S = 60.0  # over which a rate is a mean


class Traced(NamedTuple):
    """What a trace says; None: there is none."""

    input_len: int | None = None
    output_len: int | None = None
    request_rate: float | None = None

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What was made of it."""
        if self.request_rate is None:
            return ()
        rate = "requests a second in the trace's busiest minute, unless a flag says the load"
        return (
            Assumption(name="request_rate", value=round(self.request_rate, 6), why=rate),
            Assumption(name="input_len", value=self.input_len, why="the mean of the trace's prompts"),
            Assumption(name="output_len", value=self.output_len, why="the mean of the trace's answers"),
        )


def traced_load(path: str | None, given: Mapping[str, Any]) -> Traced:
    """What a trace asks.

    Raises:
        KvcalcError: it cannot be read, or lengths are given beside it.
    """
    if path is None:
        return Traced()
    if lengths := given.keys() & {"input_len", "output_len"}:
        flag = "--isl" if "input_len" in lengths else "--osl"
        raise KvcalcError(f"{flag} says lengths, and --trace has its own", hint="leave one of the two out")
    from kvcalc.simulator.traces.read import read_trace

    requests = read_trace(path).requests
    rows = [(p, o) for p, o in zip(requests.prompt, requests.output, strict=True) if p > 0 and o > 0]
    if not rows:
        raise KvcalcError(f"--trace: {path} has no request with tokens", hint="is it the right file?")
    count = len(rows)
    prompt, output = round(sum(p for p, _ in rows) / count), round(sum(o for _, o in rows) / count)
    return Traced(max(1, prompt), max(1, output), busiest(requests.arrival_s))


def busiest(arrivals: Any, stretch_s: float = STRETCH_S) -> float:
    """Requests a second in the busiest stretch; of a trace that is shorter, over all of it.

    >>> busiest([0, 10, 20, 100, 101, 102, 103], stretch_s=10)
    0.4
    """
    span = arrivals[-1] - arrivals[0]
    if span <= stretch_s:
        return float(len(arrivals) / max(span, 1.0))
    first, most = 0, 0
    for last, at in enumerate(arrivals):
        while at - arrivals[first] >= stretch_s:
            first += 1
        most = max(most, last - first + 1)
    return float(most / stretch_s)
