"""What the answers of many commands have: the model, the GPUs, whether it fits, what was asked, a step's roofline."""

from typing import TypedDict

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.echo import deployment_inputs
from kvcalc.answers.verdict import Verdict
from kvcalc.results.base import Fit
from kvcalc.timing.passes import Pass


class Subject(TypedDict):
    """The first fields of a result."""

    model: str
    gpu: str
    gpus: int
    fits: bool | None
    fit: Fit
    reason: str | None


def subject(deployed: Deployed, found: Verdict) -> Subject:
    """What a result is about: `Result(**subject(deployed, found), ...)`."""
    return Subject(
        model=deployed.model.name,
        gpu=deployed.gpu.title,
        gpus=deployed.deployment.gpus,
        fits=found.fits,
        fit=found.fit,
        reason=found.reason,
    )


class Roofline(TypedDict):
    """What a point of a plot has of one step, in bytes, FLOPs and seconds."""

    bytes: float
    weight_bytes: float
    cache_bytes: float
    flops: float
    intensity_flop_per_byte: float
    memory_time_s: float
    compute_time_s: float
    bound_s: float


def roofline(step: Pass) -> Roofline:
    """Bytes, FLOPs and bounds of one step: `Point(**roofline(step), ...)`."""
    return Roofline(
        bytes=float(step.bytes),
        weight_bytes=float(step.weight_bytes),
        cache_bytes=float(step.cache_bytes),
        flops=float(step.flops),
        intensity_flop_per_byte=float(step.flops / step.bytes),
        memory_time_s=float(step.memory_time_s),
        compute_time_s=float(step.compute_time_s),
        bound_s=float(step.bound_s),
    )


def inputs_of(deployed: Deployed, **others: object) -> dict[str, object]:
    """What a report was worked out from, resolved: model, GPU, deployment, and what the command has besides."""
    return {
        "model": deployed.model.name,
        "gpu": deployed.gpu.name,
        **deployment_inputs(deployed),
        **others,
    }
