"""`--max-model-len auto`: the longest sequence that the memory holds, at most the model's own."""

from kvcalc.answers.question import Question
from kvcalc.specs.base import Assumption, replace
from kvcalc.units import format_count


def fitted(question: Question) -> Question:
    """The question with the length that the engine would choose; without a GPU, the model's own.

    As vLLM's `--max-model-len auto` (vllm/v1/core/kv_cache_utils.py, `_auto_fit_max_model_len`).
    """
    if question.gpu is None:
        return question
    from kvcalc.answers.deployed import Deployed

    deployed, own = Deployed(question), question.model.max_context
    longest = deployed.longest()
    if longest is None or longest == own:
        return question
    of = "" if own is None else f", of the model's {format_count(own)}"
    held, length = deployed.capacity, deployed.max_model_len
    expected = held.estimated_max_model_len(length) if held is not None and length is not None else None
    more = f"; {format_count(expected)} in the pool that is expected" if expected and expected > longest else ""
    taken = Assumption(name="max_model_len", value=longest, why=f"auto: the longest that is sure to fit{of}{more}")
    model = replace(question.model, assumptions=(*question.model.assumptions, taken))
    return question._replace(model=model, deployment=replace(question.deployment, max_model_len=longest))
