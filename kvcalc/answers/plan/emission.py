"""What to run: a plan's first deployment as its engine's command, a compose file or a Kubernetes manifest."""

from collections.abc import Sequence

from kvcalc.answers.command import command_for, printed, typed
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.plan.apart import Apart
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.pools import pools
from kvcalc.answers.plan.search import Found
from kvcalc.answers.plan.settings import CONTAINERS
from kvcalc.catalog.serve.hardware import hardware
from kvcalc.catalog.serve.table import pools_of
from kvcalc.catalog.serve.wrappers import Pool, compose, compose_pools, kubernetes, kubernetes_pools
from kvcalc.errors import KvcalcError
from kvcalc.units import format_things

ROUTER = "# Behind a router that sends each request to prefill and then to decode: {what}"


def emission(found: Found, asked: Asked) -> str | None:
    """The text; None where none is asked for. Under it, in a comment that `--serve` reads, what it cannot say itself.

    Raises:
        KvcalcError: the deployment's engine is no engine, or another than the one that is asked for; no container of it
            runs on these GPUs, or they are of several machines.
    """
    form, question = asked.settings.emit, found.fleet.deployed.question
    if form is None:
        return None
    engine = question.deployment.engine
    _require_engine(form, engine)
    command = command_for(question)
    if command is None:
        raise KvcalcError(f"--emit: {engine} is no engine that runs", hint="leave --engine ideal out")
    line = printed(command, question.deployment, asked.model) or ""
    note = line.partition("\n")[2]
    if form not in CONTAINERS:
        return f"{line}\n"
    deployed, gpus = found.fleet.deployed, found.fleet.deployed.deployment.gpus
    on = hardware(typed(question), deployed.gpu)
    _require_one_machine(form, deployed, gpus)
    text = compose(command, gpus, on) if form == "compose" else ""
    return (text or kubernetes(Pool("server", command, found.replicas), gpus, on)) + (f"{note}\n" if note else "")


def emission_apart(found: Sequence[Apart], asked: Asked) -> str:
    """The same of the cheapest separate pools: a command, a service or a Deployment each.

    Raises:
        KvcalcError: none are cheaper than together, or the form is another engine's.
    """
    form = asked.settings.emit
    if form is None:
        raise KvcalcError("--emit-pools writes which file?", hint="say what with --emit: vllm, sglang, compose or k8s")
    if not found:
        raise KvcalcError("no separate pools cost less than one", hint="leave --emit-pools out")
    best = found[0]
    deployed = best.found.fleet.deployed
    engine, gpus, both = deployed.deployment.engine, deployed.deployment.gpus, pools(best)
    _require_engine(form, engine)
    line = printed(both[0].command, deployed.question.deployment, asked.model) or ""
    note = line.partition("\n")[2]
    router = ROUTER.format(what=pools_of(engine)["router"])
    end = f"{router}\n" + (f"{note}\n" if note else "")
    if form in CONTAINERS:
        on = hardware(typed(deployed.question), deployed.gpu)
        _require_one_machine(form, deployed, len(both) * gpus if form == "compose" else gpus)
        if form == "k8s":
            return kubernetes_pools(both, gpus, on) + end
        here = "".join(f"# {pool.name}: {format_things(pool.replicas, 'server')} for the load\n" for pool in both)
        return here + compose_pools(both, gpus, on) + end
    said = (f"# {pool.name}: {format_things(pool.replicas, 'server')}\n{pool.command.line}\n" for pool in both)
    return "".join(said) + end


def _require_one_machine(form: str, deployed: Deployed, gpus: int) -> None:
    """A compose file is of one machine, and so is a pod."""
    node = deployed.gpus_per_node
    if gpus <= node:
        return
    what = "a compose file is of one machine" if form == "compose" else "a pod runs on one machine"
    layout = deployed.deployment.gpus
    fits = form == "compose" and layout <= node
    hint = (
        "--emit k8s starts them on machines of their own"
        if fits
        else f"--emit {deployed.deployment.engine} prints the command"
    )
    raise KvcalcError(
        f"--emit {form}: {what}, and {deployed.gpu.name} has {node} GPUs in one: {gpus} are asked", hint=hint
    )


def _require_engine(form: str, engine: str) -> None:
    if form not in (*CONTAINERS, engine):
        raise KvcalcError(
            f"--emit {form} beside --engine {engine}", hint="give the same engine twice, or compose or k8s"
        )
