"""What a calibrated GPU's run would have been without the calibration: the same requests, once more."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.simulate.figures import Latencies
from kvcalc.answers.simulate.machine import simulated
from kvcalc.answers.simulate.runs import run
from kvcalc.answers.simulate.settings import SimulateSettings
from kvcalc.simulator.requests import Requests
from kvcalc.units import format_seconds


def without_calibration(plain: Deployed, settings: SimulateSettings, requests: Requests) -> str:
    """Mean latencies of the requests on the GPU as its data sheet has it, in words."""
    import numpy as np

    mean = (sum(requests.prompt) + sum(requests.output)) / len(requests)
    found = Latencies(run(simulated(plain, settings, mean), requests, 1.0), requests)
    means = {"TTFT": np.nanmean(found.ttft), "TPOT": np.nanmean(found.tpot)} if len(requests) else {}
    said = [f"{name} {format_seconds(float(value))}" for name, value in means.items() if np.isfinite(value)]
    return f"mean {', '.join(said)}" if said else "nothing is answered"
