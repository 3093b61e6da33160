"""What a draft takes of the memory: the target with it against the target without."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.drafts import beside, draft_deployment
from kvcalc.answers.question import Question
from kvcalc.answers.speculate.drafter import Drafter
from kvcalc.results.speculate import DraftMemory
from kvcalc.specs.base import Assumption, replace


def deploy_draft(target: Deployed, drafter: Drafter) -> tuple[Deployed | None, tuple[Assumption, ...]]:
    """The model that a draft pass runs, on the target's GPUs; None where nothing runs."""
    if drafter.model is None:
        return None, ()
    deployment, assumed = draft_deployment(drafter.model, target.deployment)
    asked = Question(
        model=drafter.model, gpu=target.gpu, deployment=deployment, workload=target.question.workload
    )  # fmt: skip
    return Deployed(asked), assumed


def deploy_both(target: Deployed, drafter: Drafter, gamma: int) -> Deployed:
    """The target with its drafter beside it, as `--draft` and `--num-speculative-tokens` deploy it in any command."""
    deployment = replace(target.deployment, draft=drafter.name, num_speculative_tokens=gamma)
    model = beside(target.model, drafter, target.deployment)
    return Deployed(target.question._replace(model=model, deployment=deployment))


def draft_memory(target: Deployed, both: Deployed, context: int) -> DraftMemory:
    """The batch that fits shrinks by the draft's weights, by its cache, and by the slots of tokens in flight.

    Args:
        target: without drafts.
        both: with the draft beside it.
        context: tokens of a sequence.
    """
    return DraftMemory(
        weight_bytes=both.weight_bytes_per_gpu - target.weight_bytes_per_gpu,
        cache_bytes_per_token=both.bytes_per_token(context) - target.bytes_per_token(context),
        max_batch=both.max_batch(context),
        max_batch_without=target.max_batch(context),
    )
