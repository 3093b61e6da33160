"""One constant from measured requests: all step times are multiplied until the simulated mean TPOT is the measured one.

Near saturation a queue multiplies an error of the step time; the constant takes it away, and what is left is the
scheduler's.
"""

from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.simulator.requests import Requests

CLOSE = 1e-4
ROUNDS = 30


def fitted(replica: Simulated, requests: Requests, tpot_s: float) -> tuple[float, Latencies]:
    """The factor at which the mean TPOT is `tpot_s`, and the run with it.

    By regula falsi in the logarithms, kept inside its bracket: TPOT grows with the factor, but for steps of the
    schedule.
    """
    factor, low, high = 1.0, 0.02, 50.0
    best, best_run = float("inf"), None
    for _ in range(ROUNDS):
        found = Latencies(run(replica, requests, factor), requests)
        ratio = mean_tpot(found) / tpot_s
        if abs(ratio - 1) < best:
            best, best_factor, best_run = abs(ratio - 1), factor, found
        if best < CLOSE:
            break
        low, high = (factor, high) if ratio < 1 else (low, factor)
        factor = factor / ratio
        if not low < factor < high:
            factor = (low * high) ** 0.5
    assert best_run is not None
    return best_factor, best_run


def mean_tpot(one: Latencies) -> float:
    """Of requests with more than one token out."""
    import numpy as np

    return float(np.nanmean(one.tpot))
