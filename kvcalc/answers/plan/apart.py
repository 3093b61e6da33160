"""Separate pools: P replicas that compute prompts and D that decode, of one layout, joined by a link.

    TPOT = step(b)                         b sequences decode in each replica of D, and no prompt among them
    TTFT = front end + wait + prompt + what of the cache is left to send
    wait = prompt · u / (2 (1 - u))        u = λ · prompt / P: prompts of one length that come at random (M/D/1)
    b    = λ · (O - 1) · TPOT / D          λ requests a second, of N users N / (TTFT + (O - 1) · TPOT)

As `prefill` compares the two ways, and `simulate --prefill-replicas P` runs them.
"""

from bisect import bisect_left
from collections.abc import Callable
from functools import cached_property
from math import ceil
from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance, gain_of_drafts, range_of
from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.search import Found, Limits
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.prefill.cache import transfers
from kvcalc.catalog.prices import bill
from kvcalc.catalog.serve.table import pools_of
from kvcalc.counting.work import Step
from kvcalc.results.base import Range
from kvcalc.timing.estimate import Estimate
from kvcalc.timing.passes import pass_of
from kvcalc.timing.serving import hastened, largest_batch

BETWEEN = ("network", "roce")  # links between machines
BUSIEST = 0.9  # of the time that prompts may keep their pool; above it the wait is anybody's guess
MOST_LAYOUTS = 16  # of the cheapest together, that are also tried apart
MOST_TIMES = 3  # as many replicas as together
SLACK = 8  # replicas: how far from the searched number more are tried
ROUNDS = 20  # of the loop between the rate and the latencies


class Apart(NamedTuple):
    """Both pools at the load."""

    found: Found  # the same layout, together
    prefill: int
    decode: int
    batch: int  # of a decoding replica
    ttft: Range
    tpot: Range
    rate: float  # requests a second
    usd_per_hour: float | None
    uses: dict[str, float]


class Pools:
    """The two pools of one layout under a load."""

    def __init__(self, found: Found, demand: Demand, targets: Targets) -> None:
        self.found, self.demand, self.targets = found, demand, targets

    @property
    def deployed(self) -> Deployed:
        return self.found.fleet.deployed

    @cached_property
    def first(self) -> Range | None:
        """The first token of a prompt that has its pool to itself, its cache sent; None: no link."""
        lengths, deployed = self.deployed.lengths, self.deployed
        assert lengths is not None
        alone = Performance(deployed).alone(lengths[0]).estimate
        sent, _ = transfers(deployed, lengths[0], self.prompt_s)
        link = next((one for one in sent if one.link in BETWEEN), sent[0] if sent else None)
        if alone is None or link is None:
            return None
        more = link.exposed_s
        return Range(value=alone.value + more, low=alone.low + more, high=alone.high + more)

    @cached_property
    def prompt_s(self) -> float:
        """What a prompt keeps a replica."""
        lengths = self.deployed.lengths
        assert lengths is not None
        return Performance(self.deployed).alone(lengths[0]).time_s - self.deployed.front_end_s

    def step(self, batch: int) -> Estimate:
        lengths = self.deployed.lengths
        assert lengths is not None
        context = lengths[0] + lengths[1] / 2
        found = pass_of(self.deployed.replica, Step(decode=batch, context=context)).estimate
        assert found is not None
        return hastened(found, gain_of_drafts(self.deployed, batch, int(context)))

    def fewest(self, fewer_than: int) -> Apart | None:
        """The fewest replicas of both that keep the targets, below a number; None: there is none.

        With more replicas for prompts the first token comes sooner, but requests come faster, and tokens slower: of
        those that a first token needs, the fewest are as good as any. Where so many that decode are too few, so are
        fewer; a few of them are tried all the same, for sequences come in whole numbers.
        """
        most = self._most if self.targets.output_len > 1 else None
        if most is None or self.first is None:
            return None
        best: Apart | None = None
        least = max(1, ceil(self._decoding(most) / most))
        enough = _least(least, fewer_than, lambda decode: self._beside(decode, fewer_than) is not None)
        for decode in range(max(least, enough - SLACK), fewer_than):
            if decode + self._prompts >= fewer_than:
                break
            one = self._beside(decode, fewer_than - decode)
            if one is not None and one.prefill + decode < fewer_than:
                best, fewer_than = one, one.prefill + decode
        return best

    def _beside(self, decode: int, most: int) -> Apart | None:
        """The fewest replicas for prompts, fewer than `most`, that keep the targets beside so many that decode."""
        prompts = _least(self._prompts, most, lambda number: self._soon_enough(number, decode))
        for prefill in range(prompts, min(prompts + SLACK, most)):
            one = self.at(prefill, decode)
            if one is not None and all(use <= 1 for use in one.uses.values()):
                return one
        return None

    def _soon_enough(self, prefill: int, decode: int) -> bool:
        """Whether so many replicas for prompts keep up with them, and with the target for the first token."""
        _, ttft, use, _ = self._loop(prefill, decode)
        limit = self.targets.ttft_s
        return use < BUSIEST and (limit is None or getattr(ttft, self.targets.judge) <= limit)

    def _decoding(self, most: int) -> float:
        """Sequences that decode at once at least: with replicas as full as they may be, requests are slowest."""
        further = self.targets.output_len - 1
        assert self.first is not None
        tpot_s = float(self.step(most).value)
        patience = max(self.targets.ttft_s or 0.0, self.first.value) + 2 * self.prompt_s / (1 - BUSIEST)
        return self.demand.rate(patience + further * tpot_s) * further * float(self.step(1).value)

    @cached_property
    def _prompts(self) -> int:
        """Replicas for prompts at least: with fewer they are busier than they may be."""
        further = self.targets.output_len - 1
        assert self.first is not None
        slowest = self.demand.rate(self.first.value + 2 * self.prompt_s / (1 - BUSIEST) + further * self._slowest)
        return max(1, ceil(slowest * self.prompt_s / BUSIEST - 1e-9))

    @cached_property
    def _slowest(self) -> float:
        """Seconds of a token where replicas are as full as they may be."""
        return float(self.step(self._most or 1).value)

    @cached_property
    def _most(self) -> int | None:
        """Sequences that a replica decodes at most within the target."""
        room = self.found.fleet.room
        if room is not None and room < 1:
            return None
        limit = self.targets.tpot_s if self.targets.tpot_s is not None else float("inf")
        judged = self.targets.judge
        return largest_batch(lambda batch: float(getattr(self.step(batch), judged)), limit, room or 1024)

    def at(self, prefill: int, decode: int) -> Apart | None:
        """So many replicas of each at the load; None: prompts or sequences have no room."""
        rate, ttft, use, batch = self._loop(prefill, decode)
        room = self.found.fleet.room
        if use >= BUSIEST or (room is not None and batch > room):
            return None
        return self._kept(prefill, decode, batch, (ttft, range_of(self.step(batch)), rate))

    def _loop(self, prefill: int, decode: int) -> tuple[float, Range, float, int]:
        """Requests a second, the first token, the share of time that prompts keep their pool, and sequences a step."""
        assert self.first is not None
        further = self.targets.output_len - 1
        ttft_s, batch = self.first.value, 1
        for _ in range(ROUNDS):
            tpot_s = float(self.step(batch).value)
            rate = self.demand.rate(ttft_s + further * tpot_s)
            use = rate * self.prompt_s / prefill
            wait_s = self.prompt_s * min(use, BUSIEST) / (2 * (1 - min(use, BUSIEST)))
            wanted, ttft_s = max(1, ceil(rate * further * tpot_s / decode - 1e-9)), self.first.value + wait_s
            if wanted == batch:
                break
            batch = wanted
        return rate, Range(value=ttft_s, low=self.first.low, high=self.first.high + 2 * wait_s), use, batch

    def _kept(self, prefill: int, decode: int, batch: int, speed: tuple[Range, Range, float]) -> Apart:
        ttft, tpot, rate = speed
        targets, deployed, further = self.targets, self.deployed, self.targets.output_len - 1
        have = {"ttft": (ttft, targets.ttft_s), "tpot": (tpot, targets.tpot_s)}
        uses = {name: getattr(one, targets.judge) / limit for name, (one, limit) in have.items() if limit is not None}
        if targets.e2e_s is not None:
            whole = getattr(ttft, targets.judge) + further * getattr(tpot, targets.judge)
            uses["e2e"] = whole / targets.e2e_s
        paid = bill(deployed.gpu, deployed.deployment, prefill + decode)
        return Apart(self.found, prefill, decode, batch, ttft, tpot, rate, paid.usd_per_hour, uses)


def _least(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from `low` and below `high` that holds, where all larger ones do too; `high`: none."""
    return low + bisect_left(range(low, high), True, key=holds)


def apart(found: list[Found], demand: Demand, targets: Targets, limits: Limits) -> list[Apart]:
    """Separate pools that cost less than the cheapest of the deployments that were found, the cheapest first."""
    kept = [one for one in found if one.kept and one.usd_per_hour is not None]
    best = min((one.usd_per_hour or 0.0 for one in kept), default=None)
    done: list[Apart] = []
    for one in found[:MOST_LAYOUTS]:
        pools = _cheaper(one, demand, targets, best)
        if pools is None:
            continue
        replicas = pools.prefill + pools.decode
        if limits.keeps(one._replace(replicas=replicas, usd_per_hour=pools.usd_per_hour)):
            done.append(pools)
            best = pools.usd_per_hour if best is None else min(best, pools.usd_per_hour or best)
    return sorted(done, key=lambda one: one.usd_per_hour or 0)


def _cheaper(one: Found, demand: Demand, targets: Targets, best: float | None) -> Apart | None:
    """A layout's pools, where they cost less than the best so far."""
    deployment = one.fleet.deployed.question.deployment
    if not pools_of(deployment.engine) or deployment.data_parallel_size > 1 or deployment.max_num_seqs:
        return None
    most = MOST_TIMES * one.replicas if one.kept else ceil(demand.total)
    if best is not None and one.usd_per_hour is not None:
        most = min(most, ceil(best / (one.usd_per_hour / one.replicas) - 1e-9))
    return Pools(one, demand, targets).fewest(most) if most > 2 else None
