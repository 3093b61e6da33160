"""The command lines whose answers a page shows."""

import shlex
from collections.abc import Mapping
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question
from kvcalc.answers.report import pool, prompts, rounds, schedules
from kvcalc.answers.report.explorer import BATCHES, contexts
from kvcalc.specs.checked import flag_of

WORKLOAD = ("context", "batch", "input_len", "output_len", "concurrency", "num_prompts", "equal_lengths", "prefix_hit")


def words(flags: Mapping[str, Any]) -> str:
    """Flags as they are typed.

    >>> words({"gpu": "h100-sxm", "batch": ["1", "2"], "enforce_eager": True, "async_scheduling": False})
    '--gpu h100-sxm --batch 1 --batch 2 --enforce-eager --no-async-scheduling'
    """
    found: list[str] = []
    for name, value in flags.items():
        flag = flag_of(name)
        if isinstance(value, bool):
            found.append(flag if value else f"--no-{flag[2:]}")
            continue
        for one in value if isinstance(value, list | tuple) else [value]:
            found += [flag, str(one)]
    return shlex.join(found)


def line(command: str, model: str, flags: Mapping[str, Any]) -> str:
    """A whole line."""
    return f"kvcalc {command} {shlex.quote(model)} {words(flags)}"


def of_figures(model: str, flags: Mapping[str, Any], question: Question) -> dict[str, str]:
    """Of each figure in the state that it is shown in, the pool's aside. Schedules are of one replica."""
    deployed = Deployed(question)
    bare = {name: value for name, value in flags.items() if name not in WORKLOAD}
    several = {"context": [str(one) for one in contexts(deployed)], "batch": [str(one) for one in BATCHES]}
    served = {name: value for name, value in flags.items() if name in ("batch", "context")}
    prompt = {"batch": str(prompts.batch_of(deployed)), "context": str(prompts.CONTEXT)}
    length = next(iter(prompts.lengths(deployed)[-1:]))
    schedule = {**bare, **schedules.flags(), "output_len": schedules.output_len(schedules.LONGEST[1])}
    own = {name: value for name, value in bare.items() if name not in ("draft", "num_speculative_tokens")}
    alone = question.deployment.data_parallel_size == 1
    schedules_too = {"static": {**schedule, "scheduler": "static"}, "continuous": schedule} if alone else {}
    return {
        "explorer": line("curve", model, {**bare, **several}),
        **{name: line("simulate", model, asked) for name, asked in schedules_too.items()},
        "rounds": line(
            "speculate", model, {**own, **served, "draft": rounds.draft_name(question), "acceptance": "0.8"}
        ),
        "prompts": line("prefill", model, {**bare, **prompt, "input_len": str(length), "chunk": "512"}),
    }


def of_pool(model: str, flags: Mapping[str, Any], question: Question) -> dict[str, str]:
    """Of the small pool, in one piece and paged."""
    bare = {name: value for name, value in flags.items() if name not in WORKLOAD}
    asked = bare | pool.flags(question)
    return {
        "contiguous": line("simulate", model, {**asked, "reservation": "max"}),
        "paged": line("simulate", model, asked),
        "crowded": line("simulate", model, bare | pool.flags(question, pool.CROWD)),
    }
