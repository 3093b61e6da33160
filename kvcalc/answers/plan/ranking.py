"""Which of the deployments that were found are shown, and in which order."""

from collections.abc import Sequence

from kvcalc.answers.plan.search import Found
from kvcalc.answers.plan.settings import Objective
from kvcalc.specs.deployment import Deployment

_PLAIN = Deployment()


def ranked(found: Sequence[Found], objective: Objective) -> list[Found]:
    """The best first; of equals what departs least from the model as it is stored, then the faster."""
    return sorted(found, key=lambda one: (_cost(one, objective), *_order(one)))


def front(found: Sequence[Found], objective: Objective) -> set[int]:
    """Places of those that no other beats in cost and in speed per user."""
    order = sorted(range(len(found)), key=lambda i: (_cost(found[i], objective), found[i].tpot_s))
    best, on_it = float("inf"), set()
    for i in order:
        if found[i].tpot_s < best:
            best = found[i].tpot_s
            on_it.add(i)
    return on_it


def _cost(one: Found, objective: Objective) -> float:
    if objective == "gpus":
        return one.replicas * one.fleet.deployed.deployment.gpus
    if objective == "tokens-per-gpu":
        gpus = one.replicas * one.fleet.deployed.deployment.gpus
        return -one.point.rate * one.replicas / gpus
    return float("inf") if one.usd_per_hour is None else one.usd_per_hour


def _order(one: Found) -> tuple[float, int, int, float, str]:
    deployment = one.fleet.deployed.question.deployment
    money = float("inf") if one.usd_per_hour is None else one.usd_per_hour
    changed = sum(
        getattr(deployment, name) != getattr(_PLAIN, name)
        for name in (*("quantization", "kv_cache_dtype", "max_model_len", "max_num_seqs", "max_num_batched_tokens"),
                     "enable_prefix_caching")
    )  # fmt: skip
    return money, deployment.gpus * one.replicas, changed, one.tpot_s, str(one.choice.flags)
