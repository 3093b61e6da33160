"""Advice in an engine's own flags; kvcalc's are vLLM's."""

from typing import Any

from kvcalc.catalog.serve.emit import command_of
from kvcalc.catalog.serve.served import read_command
from kvcalc.engines import rules
from kvcalc.errors import KvcalcError
from kvcalc.results.size import Advice
from kvcalc.specs.base import replace
from kvcalc.specs.checked import checked
from kvcalc.specs.deployment import Deployment


def in_engine_words(advice: Advice, engine: str) -> Advice:
    """The same change, as that engine's command line takes it.

    >>> in_engine_words(Advice(change="--max-model-len 4096", effect="fits"), "sglang").change
    '--context-length 4096'
    """
    change = advice.change
    fields = changed_fields(change)
    if fields:
        command = command_of("model", checked(Deployment, {"engine": engine, **fields}))
        if command is not None and not command.unsaid:
            return replace(advice, change=" ".join(command.arguments))
    for ours, theirs in rules(engine).FLAGS.items():
        if change == ours or change.startswith(ours + " "):
            change = theirs + change[len(ours) :]
    return replace(advice, change=change)


def changed_fields(change: str) -> dict[str, Any]:
    """The fields of a Deployment that a change in kvcalc's flags sets; empty where it is no change of flags.

    >>> changed_fields("--max-model-len 4096"), changed_fields("free the GPU")
    ({'max_model_len': '4096'}, {})
    """
    if not change.startswith("-"):
        return {}
    known = vars(Deployment())
    for program in ("vllm serve", "llama-server -m"):  # kvcalc's flags are vLLM's, and llama.cpp's where vLLM has none
        try:
            served = read_command(f"{program} model {change}")
        except KvcalcError:
            continue
        if served.fields and not served.unknown and not served.not_modelled:
            return {name: value for name, value in served.fields.items() if name in known}
    return {}
