"""Room of a step for whole prompts: what an engine that splits none has to be started with.

The longest prompt that is asked for is the mean, or one and a half times it where lengths are mixed.
"""

from math import ceil
from typing import Any

from kvcalc.answers.question import Question
from kvcalc.engines import rules
from kvcalc.specs.base import Assumption, replace
from kvcalc.specs.deployment import Deployment
from kvcalc.timing.prompts import MIXED
from kvcalc.units import format_count

NAME = "max_num_batched_tokens"


def splits(deployment: Deployment) -> bool:
    """Whether a prompt may take several steps."""
    return rules(deployment.engine).SPLITS_PROMPTS or deployment.enable_chunked_prefill


def longest_prompt(question: Question) -> int | None:
    """Tokens of the longest prompt that is asked for, at most max_model_len; None: nothing is said of prompts."""
    workload, limit = question.workload, question.deployment.max_model_len
    if question.longest_prompt is not None or workload.input_len is None:
        return question.longest_prompt
    longest = workload.input_len if workload.equal_lengths else ceil((1 + MIXED) * workload.input_len)
    return max(workload.input_len, min(longest, limit or longest))


def room_taken(question: Question) -> int | None:
    """Tokens of a step that hold the longest prompt whole beside all who decode; None: given, or as by default."""
    longest, deployment = longest_prompt(question), question.deployment
    if longest is None or NAME in question.given or splits(deployment):
        return None
    return rules(deployment.engine).room_for(longest, deployment)


def with_room(question: Question) -> Question:
    """The question with such steps, where nobody said how many tokens one takes."""
    taken = room_taken(question)
    if taken is None or question.deployment.max_num_batched_tokens is not None:
        return question
    said: dict[str, Any] = {NAME: taken}
    typed, settled = (None if one is None else replace(one, **said) for one in (question.typed, question.settled))
    return question._replace(deployment=replace(question.deployment, **said), typed=typed, settled=settled)


def with_requests(question: Question, longest: int) -> Question:
    """The question with steps that have room for the longest prompt of known requests."""
    return with_room(question._replace(longest_prompt=longest))


def whole_prompts(question: Question, budget: int) -> bool:
    """Whether a prompt waits for a step with room for all of it: where none has, prompts are taken to be split."""
    longest = longest_prompt(question)
    return not splits(question.deployment) and (longest is None or longest <= budget)


def room_assumptions(question: Question) -> tuple[Assumption, ...]:
    """What was taken for a step's tokens."""
    taken, longest = room_taken(question), longest_prompt(question)
    if taken is None or longest is None or question.deployment.max_num_batched_tokens != taken:
        return ()
    engine = rules(question.deployment.engine)
    why = (
        f"room for a prompt of {format_count(longest)} tokens beside all that decode: {engine.TITLE} splits none "
        f"without --enable-chunked-prefill, and refuses one above this"
    )
    return (Assumption(name=NAME, value=taken, why=why),)


def refusals(question: Question) -> tuple[str, ...]:
    """That prompts are above a limit that was given."""
    deployment, longest = question.deployment, longest_prompt(question)
    given, engine = deployment.max_num_batched_tokens, rules(deployment.engine)
    if splits(deployment) or given is None or longest is None or longest <= given:
        return ()
    return (
        f"prompts of up to {format_count(longest)} tokens are above max_num_batched_tokens {format_count(given)}: "
        f"{engine.TITLE} refuses them without --enable-chunked-prefill, which is taken here{_roomy(question, longest)}",
    )


def room_warnings(question: Question, running: int) -> tuple[str, ...]:
    """Prompts that wait until others end, or are refused, for want of room in a step."""
    deployment, longest = question.deployment, longest_prompt(question)
    given, beside = deployment.max_num_batched_tokens, running - 1
    waits = given is not None and longest is not None and longest <= given < longest + beside
    if longest is None or not waits or splits(deployment):
        return refusals(question)
    return (
        f"a prompt of {format_count(longest)} tokens has no room beside {format_count(beside)} that decode: it waits "
        f"until enough of them end, and all behind it, which is not in these times{_roomy(question, longest)}",
    )


def _roomy(question: Question, longest: int) -> str:
    """The limit that would do."""
    wanted = rules(question.deployment.engine).room_for(
        longest, replace(question.deployment, max_num_batched_tokens=None)
    )
    return "" if wanted is None else f"; --max-num-batched-tokens {format_count(wanted)} has room for all"
