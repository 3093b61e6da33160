"""The command line that would start what an answer describes."""

import re
from pathlib import Path

from kvcalc.answers.question import Question
from kvcalc.catalog.cards import find_card
from kvcalc.catalog.serve.emit import Command, command_of, unsaid_flags
from kvcalc.catalog.serve.note import note
from kvcalc.engines import rules
from kvcalc.results.base import engine_name
from kvcalc.specs.base import Assumption
from kvcalc.specs.checked import flag_of
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.model import ModelSpec

COSTS = ("price_usd_per_hour", "price_file", "pricing")  # of what is asked, as the GPU is, and not of the command


def command_for(question: Question) -> Command | None:
    """The command that starts a question's deployment; None for `ideal`, which is no engine."""
    name = startable(question.asked or question.model.name, question.model, question.deployment)
    return command_of(name, typed(question), bool(question.model.mtp), question.automatic)


def typed(question: Question) -> Deployment:
    """The deployment as flags say it, without what the engine's rules made of them."""
    if question.typed is not None and question.deployment == question.settled:
        return question.typed
    return rules(question.deployment.engine).typed(question.deployment)


def startable(asked: str, model: ModelSpec, deployment: Deployment) -> str:
    """What an engine finds a model by: the Hub id of a card, or what was typed.

    llama.cpp wants a GGUF: where none was named, the file that the conversion would make.
    """
    if not rules(deployment.engine).WEIGHTS_AS_IN_FILE:
        if asked.endswith("config.json"):
            return str(Path(asked).parent)  # engines take the folder
        card = find_card(asked) if "/" not in asked or not Path(asked).exists() else None
        return asked if card is None or card.hub is None or "/" in asked else card.hub
    if asked.lower().endswith(".gguf") or re.fullmatch(r"[\w.-]+/[\w.-]+:[\w.-]+", asked):
        return asked
    made = (model.quantization or "").partition("gguf ")[2].lower()
    stored = made or deployment.quantization or model.dtype
    return f"{asked.rstrip('/').rpartition('/')[2]}-{stored}.gguf"


def printed(command: Command | None, deployment: Deployment, asked: str | None = None) -> str | None:
    """The command as it is shown: under it, in a comment that `--serve` reads, what it cannot say itself.

    Args:
        command: that starts the deployment.
        deployment: as flags say it.
        asked: how kvcalc was given the model.
    """
    if command is None:
        return None
    version = () if deployment.engine_version is None else ("engine_version",)
    names = [*version, *(name for name in command.unsaid if name not in COSTS)]
    beside = asked if rules(command.engine).WEIGHTS_AS_IN_FILE and asked != command.model else None
    if beside and deployment.quantization is not None:
        names.append("quantization")
    said = note(deployment, names, beside)
    return f"{command.line}\n{said}" if said else command.line


def unsaid(command: Command | None) -> tuple[Assumption, ...]:
    """Settings that the command leaves out, for its engine has no flag for them. What is in the file needs none."""
    if command is None:
        return ()
    flags = {name: flag_of(name) for name in command.unsaid}
    in_file = {flag_of("quantization")} if rules(command.engine).WEIGHTS_AS_IN_FILE else set()
    left = [flag for flag in unsaid_flags(command, flags) if flag not in in_file]
    if not left:
        return ()
    who = engine_name(command.engine, command.version)
    return (Assumption(name="command", value=None, why=f"{who} has no flag for {', '.join(left)}"),)
