"""From what the user typed to a page of the catalog: the same for a command line and for Python."""

from collections.abc import Mapping
from typing import Any

from kvcalc.answers.listing.gpus import list_gpus, show_gpu
from kvcalc.answers.listing.models import list_models, show_model
from kvcalc.answers.question import ask
from kvcalc.errors import KvcalcError
from kvcalc.results.gpus import GpuReport, GpusReport, MachinesReport
from kvcalc.results.models import ModelReport, ModelsReport
from kvcalc.specs.checked import flag_of
from kvcalc.specs.deployment import IDEAL


def models_from(flags: Mapping[str, Any]) -> ModelsReport:
    """The list of the cards, of which nothing can be asked.

    Raises:
        KvcalcError: a flag is given.
    """
    if flags:
        flag = flag_of(next(iter(flags)))
        raise KvcalcError(f"the list of models has no {flag}", hint=f"name a model: kvcalc models MODEL {flag} ...")
    return list_models()


def model_from(model: str, flags: Mapping[str, Any]) -> ModelReport:
    """One model in full."""
    question = ask(model, dict(flags), engine=IDEAL)
    return show_model(question.model, question.deployment)


def gpus_from(gpu: str | None, match: str = "", machines: bool = False) -> GpuReport | GpusReport | MachinesReport:
    """One GPU in full, the list of the GPUs, or that of the clouds' machines.

    Raises:
        KvcalcError: what is of a list beside a GPU's name.
    """
    if gpu and (match or machines):
        raise KvcalcError("--match and --machines are of the list, and one GPU was named", hint="leave one of them out")
    if machines:
        from kvcalc.answers.listing.machines import list_machines

        return list_machines(match)
    return list_gpus(match=match) if gpu is None else show_gpu(gpu)
