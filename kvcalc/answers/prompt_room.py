"""Room of a step for whole prompts: what an engine that splits none has to be started with.

The longest prompt that is asked for is the mean, or one and a half times it where lengths are mixed.
"""

from math import ceil
from typing import Any

from kvcalc.answers.question import Question
from kvcalc.engines import rules
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.load import Workload
from kvcalc.timing.prompts import MIXED
from kvcalc.units import format_count

NAME = "max_num_batched_tokens"


def longest_prompt(workload: Workload, deployment: Deployment) -> int | None:
    """Tokens of the longest prompt that is asked for, at most max_model_len; None: nothing is said of prompts."""
    if workload.input_len is None:
        return None
    longest = workload.input_len if workload.equal_lengths else ceil((1 + MIXED) * workload.input_len)
    return max(workload.input_len, min(longest, deployment.max_model_len or longest))


def room_taken(question: Question) -> int | None:
    """Tokens of a step that hold the longest prompt whole beside all who decode; None: given, or as by default."""
    workload, deployment = question.workload, question.deployment
    longest = longest_prompt(workload, deployment)
    if longest is None or NAME in question.given:
        return None
    return rules(deployment.engine).room_for(longest, deployment)


def with_room(question: Question) -> Question:
    """The question with such steps, where nobody said how many tokens one takes."""
    taken = room_taken(question)
    if taken is None or question.deployment.max_num_batched_tokens is not None:
        return question
    said: dict[str, Any] = {NAME: taken}
    typed = None if question.typed is None else replace(question.typed, **said)
    return question._replace(deployment=replace(question.deployment, **said), typed=typed)


def whole_prompts(question: Question, budget: int) -> bool:
    """Whether a prompt waits for a step with room for all of it: where none has, prompts are taken to be split."""
    longest = longest_prompt(question.workload, question.deployment)
    return not rules(question.deployment.engine).SPLITS_PROMPTS and (longest is None or longest <= budget)


def room_assumptions(question: Question) -> tuple[Assumption, ...]:
    """What was taken for a step's tokens."""
    taken, longest = room_taken(question), longest_prompt(question.workload, question.deployment)
    if taken is None or longest is None or question.deployment.max_num_batched_tokens != taken:
        return ()
    engine = rules(question.deployment.engine)
    why = (
        f"room for a prompt of {format_count(longest)} tokens beside all that decode: {engine.TITLE} splits none, and "
        f"refuses one above this"
    )
    return (Assumption(name=NAME, value=taken, why=why),)


def room_warnings(question: Question, running: int) -> tuple[str, ...]:
    """Prompts that wait until others end, or are refused, for want of room in a step."""
    deployment, engine = question.deployment, rules(question.deployment.engine)
    given, longest = deployment.max_num_batched_tokens, longest_prompt(question.workload, deployment)
    if engine.SPLITS_PROMPTS or given is None or longest is None or longest + running - 1 <= given:
        return ()
    wanted = format_count(
        engine.room_for(longest, replace(deployment, max_num_batched_tokens=None)) or longest + running
    )
    if longest > given:
        return (
            f"prompts of up to {format_count(longest)} tokens are above max_num_batched_tokens "
            f"{format_count(given)}: {engine.TITLE} refuses them unless it splits prompts, which is taken here; "
            f"--max-num-batched-tokens {wanted} has room for all",
        )
    return (
        f"a prompt of {format_count(longest)} tokens has no room beside {format_count(running - 1)} that decode: it "
        f"waits until enough of them end, and all behind it, which is not in these times; "
        f"--max-num-batched-tokens {wanted} has room for all",
    )
