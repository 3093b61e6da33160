"""The first wave of a closed loop: all clients send at once, and their prompts wait for each other as none do later."""

from kvcalc.answers.simulate.figures import Latencies, percentile
from kvcalc.units import format_seconds

SHOWN = 95.0  # percentile that is compared
LONGER = 1.25  # so many times that of the later requests


def opening_warnings(found: Latencies) -> tuple[str, ...]:
    """What the high percentiles of the TTFT are made of, where the first requests alone make them."""
    clients = found.requests.clients
    if clients is None or len(found.requests) <= clients:
        return ()
    every, later = (percentile(one, SHOWN) for one in (found.ttft, found.ttft[clients:]))
    if every is None or later is None or every <= LONGER * later:
        return ()
    return (
        f"the TTFT's p{SHOWN:.0f} is of the first requests, which all clients send at once: later ones have "
        f"{format_seconds(later)}, and so has a longer run (--requests)",
    )
