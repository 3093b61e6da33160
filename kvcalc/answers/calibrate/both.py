"""What a calibrated GPU's answers say beside their figures: the same without the calibration."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.counting.arrays import single
from kvcalc.specs.base import Assumption, replace
from kvcalc.timing.prompts import Requests, alone_time
from kvcalc.units import format_seconds


def calibration_assumptions(deployed: Deployed) -> tuple[Assumption, ...]:
    """The factors that the figures carry, and the figures without them; () where there are none for the engine."""
    factors = deployed.gpu.calibration
    if factors is None or factors.engine != deployed.deployment.engine:
        return ()
    plain = replace(deployed.gpu, calibration=None)
    without = Deployed(deployed.question._replace(gpu=plain))
    said = f"decode × {factors.decode:.3g}, prompts × {factors.prompt:.3g}, engine × {factors.overhead:.3g}"
    why = f"measured: {factors.measurements} numbers of {factors.source}; without it {_figures(without)}"
    return (Assumption(name="calibration", value=said, why=why),)


def _figures(deployed: Deployed) -> str:
    found, asked = Performance(deployed), deployed.question.workload
    parts = []
    if found.estimate is not None:
        parts.append(f"a decode step of {format_seconds(found.estimate.step_time_s.value)}")
    if found.serving is not None:
        if found.serving.tpot_s is not None:
            parts.append(f"TPOT {format_seconds(found.serving.tpot_s.value)}")
        parts.append(f"TTFT {format_seconds(found.serving.ttft_s.value)}")
    elif asked.input_len is not None:
        alone = alone_time(deployed.replica, Requests(asked.input_len, 1, prefix_hit=asked.prefix_hit or 0))
        parts.append(f"a prompt alone {format_seconds(single(alone.value))}")
    return ", ".join(parts) or "nothing runs"
