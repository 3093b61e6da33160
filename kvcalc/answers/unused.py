"""Flags that were given and change no figure of an answer: found by answering without each, and listed.

So nothing is dropped in silence, whatever the reason: one that needs another flag beside it, another engine, a model
of another kind.
"""

from collections.abc import Callable

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
WHY = "changes no figure of this answer"
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
        if other is not None and not _is_the_default(plain, other, name) and _same(answer, other, with_all):
            lone = name in SERVED and any(lengths) and not all(lengths)
            found.append(_said(question, name, WHY_LONE if lone else WHY))
    return tuple(found)


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
    deployment, workload = question.deployment, question.workload
    if name in field_names(Deployment):
        typed = rules(deployment.engine).typed(deployment)
        deployment = settled(question.model, question.gpu, replace(typed, **{name: getattr(Deployment(), name)}))
    elif name in field_names(Workload):
        workload = replace(workload, **{name: getattr(Workload(), name)})
    if (deployment, workload) == (question.deployment, question.workload):
        return None
    return question._replace(deployment=deployment, workload=workload)


def _said(question: Question, name: str, why: str) -> Assumption:
    held = question.deployment if name in field_names(Deployment) else question.workload
    return Assumption(name=flag_of(name), value=getattr(held, name), why=why)
