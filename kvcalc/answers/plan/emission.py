"""What to run: a plan's first deployment as its engine's command, a compose file or a Kubernetes manifest."""

from kvcalc.answers.command import command_for, printed
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.search import Found
from kvcalc.answers.plan.settings import CONTAINERS
from kvcalc.catalog.serve.wrappers import compose, kubernetes
from kvcalc.errors import KvcalcError


def emission(found: Found, asked: Asked) -> str | None:
    """The text; None where none is asked for. Under it, in a comment that `--serve` reads, what it cannot say itself.

    Raises:
        KvcalcError: the deployment's engine is no engine, or another than the one that is asked for.
    """
    form, question = asked.settings.emit, found.fleet.deployed.question
    if form is None:
        return None
    engine = question.deployment.engine
    if form not in (*CONTAINERS, engine):
        raise KvcalcError(
            f"--emit {form} beside --engine {engine}", hint="give the same engine twice, or compose or k8s"
        )
    command = command_for(question)
    if command is None:
        raise KvcalcError(f"--emit: {engine} is no engine that runs", hint="leave --engine ideal out")
    line = printed(command, question.deployment, asked.model) or ""
    note = line.partition("\n")[2]
    gpus = found.fleet.deployed.deployment.gpus
    if form == "compose":
        return compose(command, gpus) + (f"{note}\n" if note else "")
    if form == "k8s":
        return kubernetes(command, gpus, found.replicas) + (f"{note}\n" if note else "")
    return f"{line}\n"
