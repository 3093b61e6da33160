"""A deployment as `inputs` echoes it: its settings as they were resolved, and the same in the engines' own words."""

from typing import Any

from kvcalc.answers.command import command_for
from kvcalc.answers.deployed import Deployed
from kvcalc.catalog.serve.table import COMMAND_LINES, command_line
from kvcalc.results.data import data_of


def deployment_inputs(deployed: Deployed) -> dict[str, Any]:
    """Every setting by its field; beside them `memory_fraction_of` (what a share that was given is a share of),
    `context_tokens` and `slots` (llama.cpp's -c and -np), and `speculation` as the engine's command line has it.
    """
    deployment = deployed.deployment
    return {
        **data_of(deployment),
        "kv_cache_dtype": deployed.cache_dtype,
        "memory_fraction_of": None if deployment.gpu_memory_utilization is None else share_of(deployment.engine),
        "context_tokens": deployment.ctx_size,
        "slots": deployment.parallel,
        "speculation": _speculation(deployed) if deployment.num_speculative_tokens else None,
    }


def share_of(engine: str) -> str | None:
    """What an engine's share of memory is a share of; None: it takes none.

    >>> share_of("vllm"), share_of("sglang")
    ('whole card', 'weights and pools')
    """
    return command_line(engine).about.get("share_of") if engine in COMMAND_LINES else None


def _speculation(deployed: Deployed) -> dict[str, Any] | None:
    from kvcalc.catalog.serve.served import read_command

    command = command_for(deployed.question)
    return None if command is None else read_command(command.line).speculation  # type: ignore[return-value]
