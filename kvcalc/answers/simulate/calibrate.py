"""One constant from measured requests: all step times are multiplied until the simulated mean TPOT is the measured one.

Near saturation a queue multiplies an error of the step time; the constant takes it away, and what is left is the
scheduler's.
"""

from dataclasses import replace
from typing import Any

from kvcalc.answers.simulate.figures import Latencies, percentiles
from kvcalc.answers.simulate.machine import Simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.errors import KvcalcError
from kvcalc.results.simulate import Calibration
from kvcalc.simulator.requests import Requests
from kvcalc.simulator.traces.read import read_trace
from kvcalc.simulator.traces.trace import Measured

STATISTICS = ("mean", "p50", "p90", "p99")
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


def calibration(path: str, replica: Simulated, requests: Requests, goodput: Any) -> Calibration:
    """The factor that a log of measured requests asks for, and this workload with it.

    The engine's clock counts in a log: nothing is added for what lies between it and a client.

    Args:
        path: a log with the times of first and last tokens.
        replica: the deployment that was measured.
        requests: the workload of the question.
        goodput: requests per second of a run that meet the targets.

    Raises:
        KvcalcError: the file does not say what was measured.
    """
    trace = read_trace(path)
    measured = trace.measured
    if measured is None or not measured.tpot_s:
        raise KvcalcError(
            f"--calibrate-from: {path} does not say when tokens came",
            hint="it needs first_token_s and last_token_s of every request, or vLLM's detailed bench results",
        )
    inside = replace(replica, front_s=0.0)
    if min(*trace.requests.prompt, *trace.requests.output) < 1:
        raise KvcalcError(f"--calibrate-from: {path} has requests without tokens", hint="leave them out of the file")
    mean = sum(measured.tpot_s) / len(measured.tpot_s)
    if not mean > 0:
        raise KvcalcError(f"--calibrate-from: {path}: a mean of {mean:g} s a token", hint="is the file a server's?")
    before = Latencies(run(inside, trace.requests), trace.requests)
    factor, after = fitted(inside, trace.requests, mean)
    found = Latencies(run(replica, requests, factor), requests)
    return Calibration(
        file=path,
        requests=len(trace.requests),
        factor=factor,
        measured_tpot_s=mean,
        simulated_tpot_s=mean_tpot(before),
        error_before=errors(before, measured),
        error_after=errors(after, measured),
        ttft_s=percentiles([found], "ttft"),
        tpot_s=percentiles([found], "tpot"),
        e2e_s=percentiles([found], "e2e"),
        goodput_requests_per_s=goodput(found),
        output_tokens_per_s=sum(requests.output) / found.span_s,
    )


def errors(found: Latencies, measured: Measured) -> dict[str, float]:
    """Relative errors of what was simulated: `ttft_mean`, `tpot_p99`, ..."""
    import numpy as np

    made = {"ttft": found.ttft, "tpot": found.tpot[~np.isnan(found.tpot)], "e2e": found.e2e}
    real = {"ttft": measured.ttft_s, "tpot": measured.tpot_s, "e2e": measured.e2e_s}
    return {
        f"{name}_{statistic}": float(_of(statistic, values) / _of(statistic, real[name]) - 1)
        for name, values in made.items()
        for statistic in STATISTICS
    }


def _of(statistic: str, values: Any) -> float:
    import numpy as np

    return float(np.mean(values) if statistic == "mean" else np.percentile(values, float(statistic[1:])))
