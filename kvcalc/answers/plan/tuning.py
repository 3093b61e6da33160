"""Other settings of a layout, where they could make it cheaper than the cheapest of all.

Most could not, and are ruled out unseen. With any setting a replica decodes some of its C clients at once while the
others wait: of N that decode, the rest waits (C - N) / N answers on average, and no answer takes less than its tokens
at one client's step. So a target on the first token says how few N may be, and N clients that all decode, with prompts
in the largest pieces, how long a token takes at least. Where that is above the target, no setting helps.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.performance import gain_of_drafts
from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.fleet import NEAR, Fleet
from kvcalc.answers.plan.search import Found, Limits, fewest
from kvcalc.answers.plan.space import BUDGETS, SEQUENCES, Space
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.verdict import unfit_reason
from kvcalc.catalog.prices import bill
from kvcalc.counting.work import Step
from kvcalc.engines.memory.budget import End
from kvcalc.errors import KvcalcError
from kvcalc.timing.passes import pass_of
from kvcalc.timing.prompts import Requests
from kvcalc.timing.serving import hastened, steady_state


def tuned(space: Space, found: list[Found], demand: Demand, targets: Targets, limits: Limits) -> list[Found]:
    """Deployments of the layouts that were found, with settings that make them cheaper than any of these."""
    best = _best(found, limits)
    better: list[Found] = []
    for one in sorted((one for one in found if not one.hopeless), key=lambda one: one.usd_per_hour or 0):
        replicas = _affordable(one, best)
        decoding = _decoding(one.fleet, replicas) if replicas > 0 else None
        if decoding is None:
            continue
        for other in _others(space, one, replicas, decoding):
            cheaper = best is None or (other.usd_per_hour is not None and other.usd_per_hour < best)
            if other.kept and cheaper and limits.keeps(other):
                better.append(other)
                best = other.usd_per_hour
    return better


def hopeless(found: list[Found], limits: Limits) -> set[int]:
    """The ids of those that no setting makes cheaper than the cheapest of these, let alone than one cheaper still."""
    best = _best(found, limits)
    counts = {id(one): _affordable(one, best) for one in found}
    return {id(one) for one in found if counts[id(one)] < 1 or _decoding(one.fleet, counts[id(one)]) is None}


def _best(found: list[Found], limits: Limits) -> float | None:
    good = (one.usd_per_hour for one in found if one.kept and limits.keeps(one) and one.usd_per_hour is not None)
    return min(good, default=None)


def _affordable(one: Found, best: float | None) -> int:
    """The most replicas that cost less than the best; where nothing is known to do, as many as it takes."""
    most = one.replicas - 1 if one.kept else ceil(one.fleet.demand.total)
    if best is None or one.usd_per_hour is None:
        return most
    if one.usd_per_hour < best:
        return most
    # A cloud's machine may hold several replicas: the bill of one more is none, or a whole machine's.
    deployed, each = one.fleet.deployed, one.usd_per_hour / one.replicas
    shared = deployed.gpu.instance is not None
    replicas = min(most, ceil(best / each) + (deployed.bill.gpus if shared else 0))
    while replicas and (bill(deployed.gpu, deployed.deployment, replicas).usd_per_hour or 0) >= best:
        replicas -= 1
    return replicas


def _decoding(fleet: Fleet, replicas: int) -> int | None:
    """How many of a replica's clients decode at once at least; None: no setting keeps the targets with its share."""
    targets, deployed = fleet.targets, fleet.deployed
    lengths = deployed.lengths
    assert lengths is not None
    if targets.tpot_s is None or lengths[1] < 2:
        return 1
    asked = Requests(lengths[0], lengths[1], deployed.usable_hit(lengths[0]))
    answer_s = (lengths[1] - 1) * _step_s(deployed, 1, asked.context, targets.judge)
    patience = targets.ttft_s if targets.ttft_s is not None else targets.e2e_s or 0.0
    decoding = max(1, ceil(_share(fleet, replicas) / (1 + patience / answer_s) - NEAR))
    if _step_s(deployed, decoding, asked.context, targets.judge) > targets.tpot_s:
        return None
    widest = replace(deployed.replica, budget=max(*BUDGETS, deployed.replica.budget))
    gain = gain_of_drafts(deployed, decoding, int(asked.context))
    found = steady_state(widest, asked, decoding, gain).tpot
    kept = found is None or float(getattr(found, targets.judge)) <= targets.tpot_s
    return decoding if kept else None


def _share(fleet: Fleet, replicas: int) -> int:
    """Clients of each of so many replicas; of a rate, at least one."""
    return fleet.share(replicas) if fleet.demand.carries_clients else 1


def _step_s(deployed: Deployed, sequences: int, context: float, end: str) -> float:
    """What a token takes at least, drafts counted."""
    found = pass_of(deployed.replica, Step(decode=sequences, context=context)).estimate
    gain = gain_of_drafts(deployed, sequences, int(context))
    return 0.0 if found is None else float(getattr(hastened(found, gain), end))


def _others(space: Space, one: Found, replicas: int, decoding: int) -> Iterator[Found]:
    """The layout with each other setting that could matter, where it fits and needs fewer replicas."""
    fleet, deployed = one.fleet, one.fleet.deployed
    clients = _share(fleet, replicas)
    plain = fleet.demand.carries_clients
    # With more sequences than clients nobody waits, with fewer than must decode too many do; of a rate any may help.
    sequences = [value for value in SEQUENCES if not plain or decoding <= value < clients]
    # Smaller pieces of prompts only make room.
    crowded = fleet.room is not None and fleet.room < clients
    budgets = [value for value in BUDGETS if value > deployed.max_num_batched_tokens or crowded]
    for choice in space.settings(one.choice, sequences, budgets):
        other = Deployed(choice.question)
        try:
            end: End = "low" if fleet.targets.judge == "high" else "value"
            if unfit_reason(other, operating_point(other), end=end):
                continue
            changed = Fleet(other, fleet.demand, fleet.targets)
            if not plain or changed.at(clients).kept:
                yield fewest(choice, changed, clients)
        except KvcalcError:
            continue
