"""Flags that were given and change no figure of an answer: found by answering without each, and listed.

So nothing is dropped in silence, whatever the reason: one that needs another flag beside it, another engine, a model
of another kind. One that does what is done without it too is told from those: another value would change figures.
"""

from collections.abc import Callable
from typing import Any

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.question import Question
from kvcalc.engines import rules, settled
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import Assumption, field_names, replace
from kvcalc.specs.checked import flag_of
from kvcalc.specs.deployment import Deployment
from kvcalc.specs.load import Workload

# Flags that change figures wherever they are taken, or say what is asked: not worth a second answer.
CERTAIN = frozenset({"gpu", "engine", "dtype", "quantization", "kv_cache_dtype", "context", "batch"})
SERVED = frozenset({"input_len", "output_len", "concurrency"})  # certain where both lengths are given
LAYOUT = frozenset({"tensor_parallel_size", "pipeline_parallel_size", "data_parallel_size"})
TOWERS = frozenset({"language_model_only", "limit_mm_per_prompt"})
RESOLVED = ("max_model_len", "max_num_seqs", "max_num_batched_tokens", "gpu_memory_utilization", "gpus_per_node")
ANOTHER = {"backend": "vulkan", "host_memory_bandwidth": "1TB/s"}  # a value of those that are no numbers
WHY = "changes no figure of this answer"
WHY_USUAL = "the same as without it; other values change figures"
WHY_LONE = "changes no figure without the other length beside it"


def unused(question: Question, answer: Callable[[Question], object]) -> tuple[Assumption, ...]:
    """Each flag that was given and without which the answer is the same.

    Args:
        question: with the fields that were given.
        answer: everything that a report shows, for comparison; it gives no heed to what was given.
    """
    suspects = question.given - CERTAIN
    if any(one.name == "towers" for one in question.model.assumptions):
        suspects -= TOWERS  # the model was read without them
    lengths = question.workload.input_len is not None, question.workload.output_len is not None
    if all(lengths):
        suspects -= SERVED
    if question.gpu is not None:
        suspects -= LAYOUT
    if not suspects:
        return ()
    plain = question._replace(given=frozenset())
    with_all = answer(plain)
    found = []
    for name in sorted(suspects):
        other = without(plain, name)
        if other is None or _is_the_default(plain, other, name) or not _same(answer, other, with_all):
            continue
        why = (
            WHY_LONE if name in SERVED and any(lengths) else WHY_USUAL if _live(plain, name, answer, with_all) else WHY
        )
        found.append(_said(question, name, why))
    return tuple(found)


def _live(question: Question, name: str, answer: Callable[[Question], object], with_all: object) -> bool:
    """Whether another value, of a number twice as much, would change the answer."""
    value = getattr(_holder(question, name), name, None)
    other: Any = ANOTHER.get(name)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        other = 2 * value
    changed = None if other is None else with_value(question, name, other)
    return changed is not None and not _same(answer, changed, with_all)


def _is_the_default(question: Question, other: Question, name: str) -> bool:
    """Whether a setting repeats what is taken without it: it is honoured, for it says what is so."""
    if name not in RESOLVED or question.gpu is None:
        return False
    try:
        return bool(getattr(Deployed(other), name) == getattr(question.deployment, name))
    except KvcalcError:
        return False


def _same(answer: Callable[[Question], object], question: Question, wanted: object) -> bool:
    try:
        return answer(question) == wanted
    except KvcalcError:
        return False


def without(question: Question, name: str) -> Question | None:
    """The question with one field, and what its engine makes of it, as if not given; None: it is at its default."""
    kind = type(_holder(question, name))
    return with_value(question, name, getattr(kind(), name, None))


def with_value(question: Question, name: str, value: Any) -> Question | None:
    """The question with another value of one field, and what its engine makes of it; None: nothing is other."""
    deployment, workload = question.deployment, question.workload
    if name in field_names(Deployment):
        typed = rules(deployment.engine).typed(deployment)
        deployment = settled(question.model, question.gpu, replace(typed, **{name: value}))
    elif name in field_names(Workload):
        workload = replace(workload, **{name: value})
    if (deployment, workload) == (question.deployment, question.workload):
        return None
    return question._replace(deployment=deployment, workload=workload)


def _holder(question: Question, name: str) -> Deployment | Workload:
    return question.deployment if name in field_names(Deployment) else question.workload


def _said(question: Question, name: str, why: str) -> Assumption:
    return Assumption(name=flag_of(name), value=getattr(_holder(question, name), name), why=why)
