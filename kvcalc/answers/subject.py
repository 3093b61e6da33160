"""What the answers of many commands begin with: the model, the GPUs, whether it fits, and what was asked."""

from typing import TypedDict

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.echo import deployment_inputs
from kvcalc.answers.verdict import Verdict
from kvcalc.results.base import Fit


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


def inputs_of(deployed: Deployed, **others: object) -> dict[str, object]:
    """What a report was worked out from, resolved: model, GPU, deployment, and what the command has besides."""
    return {
        "model": deployed.model.name,
        "gpu": deployed.gpu.name,
        **deployment_inputs(deployed),
        **others,
    }
