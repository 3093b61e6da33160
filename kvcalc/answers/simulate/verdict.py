"""Whether a queue stays short: from the load, and from how often somebody waited."""

from kvcalc.answers.simulate.figures import Latencies
from kvcalc.results.simulate import Verdict

MOST_QUEUED = 0.1  # of the time in which requests arrive
ROUNDING = 1e-9  # a load of one is not above it


def queued_share(one: Latencies) -> float:
    """Of the time in which requests arrive, somebody waited for blocks or a slot; of the run if all come at once."""
    use = one.outcome.use
    if one.requests.clients is None and not one.arrivals_s:
        return min(1.0, use.crowded_s / one.span_s)
    return min(1.0, use.queued_s / (one.span_s if one.requests.clients is not None else one.arrivals_s))


def verdict_of(one: Latencies, load: float | None) -> Verdict:
    """Overloaded: more arrives than can be served. Backlogged: it could be served, but a queue stood."""
    if load is not None and load > 1 + ROUNDING:
        return "overloaded"
    waits = queued_share(one) > MOST_QUEUED or (load is not None and one.outcome.use.queued_at_end)
    return "backlogged" if waits else "stable"
