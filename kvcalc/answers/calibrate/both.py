"""What a calibrated GPU's answers say beside their figures: the same without the calibration."""

from collections.abc import Callable, Sequence

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.question import Question
from kvcalc.counting.arrays import single
from kvcalc.specs.base import Assumption, replace
from kvcalc.timing.prompts import Requests, alone_time
from kvcalc.units import format_seconds

NAME = "calibration"


def calibration_assumptions(
    deployed: Deployed, figures: Callable[[Deployed], str] | None = None
) -> tuple[Assumption, ...]:
    """The factors that the figures carry, and the figures without them; () where there are none for the engine.

    `figures` says those of a deployment without the factors, where they are not of the question's operating point.
    """
    factors = deployed.gpu.calibration
    if factors is None or factors.engine != deployed.deployment.engine:
        return ()
    without = Deployed(deployed.question._replace(gpu=replace(deployed.gpu, calibration=None)))
    said = f"decode × {factors.decode:.3g}, prompts × {factors.prompt:.3g}, engine × {factors.overhead:.3g}"
    why = f"measured: {factors.measurements} numbers of {factors.source}; without it {(figures or figures_at)(without)}"
    served = served_of(deployed.question)
    if factors.served and factors.served != served:
        why += f"; measured with {factors.served}, and carried over to {served}"
    return (Assumption(name=NAME, value=said, why=why),)


def with_figures(
    assumptions: Sequence[Assumption], deployed: Deployed, figures: Callable[[Deployed], str]
) -> tuple[Assumption, ...]:
    """Assumptions of an answer whose figures without the calibration are these, not the operating point's."""
    if not any(one.name == NAME for one in assumptions):
        return tuple(assumptions)
    (moved,) = calibration_assumptions(deployed, figures)
    return tuple(moved if one.name == NAME else one for one in assumptions)


def served_of(question: Question) -> str:
    """What factors were measured with: model, weights as they are loaded, and layout; another is carried over to."""
    deployment = question.deployment
    sizes = {
        "TP": deployment.tensor_parallel_size,
        "PP": deployment.pipeline_parallel_size,
        "DP": deployment.data_parallel_size,
    }
    layout = [f"{name}{size}" for name, size in sizes.items() if size > 1]
    return " ".join([question.model.name, *filter(None, [deployment.quantization]), *layout])


def figures_at(deployed: Deployed, concurrency: int | None = None) -> str:
    """Times of a deployment in words: its decode step (not where clients are given), and those of its clients."""
    found, asked = Performance(deployed, concurrency=concurrency), deployed.question.workload
    parts = []
    if found.estimate is not None and concurrency is None:
        parts.append(f"a decode step of {format_seconds(found.estimate.step_time_s.value)}")
    if found.serving is not None:
        if found.serving.tpot_s is not None:
            parts.append(f"TPOT {format_seconds(found.serving.tpot_s.value)}")
        parts.append(f"TTFT {format_seconds(found.serving.ttft_s.value)}")
    elif asked.input_len is not None:
        alone = alone_time(deployed.replica, Requests(asked.input_len, 1, prefix_hit=asked.prefix_hit or 0))
        parts.append(f"a prompt alone {format_seconds(single(alone.value))}")
    return ", ".join(parts) or "nothing runs"
