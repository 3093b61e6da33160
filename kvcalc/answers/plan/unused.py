"""Flags of a plan that change no figure of its first deployment."""

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.performance import Performance
from kvcalc.answers.plan.asked import Asked
from kvcalc.answers.plan.search import Found
from kvcalc.answers.plan.space import VARIED
from kvcalc.answers.question import Question
from kvcalc.answers.unused import unused
from kvcalc.answers.verdict import verdict
from kvcalc.specs.base import Assumption, replace

WHY = "changes no figure of the first deployment"
TARGETS = ("ttft_s", "tpot_s")
LAYOUT = ("enable_expert_parallel", "data_parallel_size", "decode_context_parallel_size")


def unused_flags(first: Found, asked: Asked) -> tuple[Assumption, ...]:
    """Each flag that was given, is of every deployment, and without which the first would be the same."""
    question, clients = first.fleet.deployed.question, first.point.clients
    given = question.given & (asked.given.keys() - {*VARIED, *LAYOUT, *TARGETS})

    def figures(other: Question) -> object:
        deployed = Deployed(other)
        speed = Performance(deployed, concurrency=clients)
        room = None if deployed.capacity is None else deployed.capacity.kv_cache_size_tokens
        return (verdict(deployed, operating_point(deployed)), deployed.budget.pool, room, speed.serving,
                deployed.weight_bytes_per_gpu, deployed.bill.usd_per_hour)  # fmt: skip

    found = unused(question._replace(given=given), figures)
    return tuple(replace(one, why=WHY) for one in found)
