"""What starts where not all of a model has room on the card: layers, or experts, that stay with the CPU."""

from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.question import Question, stored_as
from kvcalc.answers.searches import largest
from kvcalc.answers.verdict import unfit_reason
from kvcalc.counting.work import Step
from kvcalc.engines import rules, settled
from kvcalc.engines.memory.budget import End
from kvcalc.errors import KvcalcError
from kvcalc.results.size import Advice
from kvcalc.specs.base import replace
from kvcalc.specs.model import MoeMlp
from kvcalc.timing.passes import Pass
from kvcalc.units import format_bytes, format_count


def offloaded(question: Question) -> list[Advice]:
    """The fewest experts, and the fewest layers, left to the CPU with which the engine starts; none where it cannot."""
    shared = question.gpu is not None and question.gpu.unified_memory  # the CPU has no memory of its own
    if shared or not rules(question.deployment.engine).OFFLOADS:
        return []
    found: list[Advice] = []
    layers = question.model.layers
    if any(isinstance(group.mlp, MoeMlp) for group in question.model.groups):
        kept = largest(lambda n: _sure(question, {"n_cpu_moe": layers - n}) is not None, layers)
        other = _sure(question, {"n_cpu_moe": layers - kept})
        if other is not None:
            found.append(_left_to_cpu(f"--n-cpu-moe {layers - kept}", other))
    kept = largest(lambda n: _sure(question, {"n_gpu_layers": n}) is not None, layers)
    other = _sure(question, {"n_gpu_layers": kept})
    if other is not None and kept:
        found.append(_left_to_cpu(f"-ngl {kept}", other))
    return found


def _sure(question: Question, update: dict[str, Any]) -> Deployed | None:
    return starts(question, update, end="low")


def starts(question: Question, update: dict[str, Any], end: End = "value") -> Deployed | None:
    """The deployment with a change, if the engine then starts, at one end of the pool's range."""
    try:
        deployment = settled(question.model, question.gpu, replace(question.deployment, **update))
        model = stored_as(question.model, deployment) if "quantization" in update else question.model
        other = Deployed(question._replace(model=model, deployment=deployment))
        return other if unfit_reason(other, operating_point(other), end=end) is None else None
    except KvcalcError:
        return None


def _left_to_cpu(change: str, other: Deployed) -> Advice:
    effect = f"{format_bytes(other.weight_bytes_per_gpu)} of weights on the GPU, the rest with the CPU"
    try:
        alone = Pass(other.replica, Step(decode=1, context=operating_point(other).context)).estimate
    except KvcalcError:  # its spec has no link to the host: how much slower cannot be said
        alone = None
    speed = "slower" if alone is None else f"{format_count(1 / float(alone.value))} tokens/s alone"
    return Advice(change=change, effect=f"{effect}: {speed}", goal="fit")
