"""The search: every choice of the space, the cheapest first, without those that a bound rules out."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import operating_point
from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.fleet import Fleet, Point
from kvcalc.answers.plan.space import Choice, Space
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.verdict import unfit_reason
from kvcalc.catalog.prices import bill
from kvcalc.engines.memory.budget import End
from kvcalc.errors import KvcalcError


class Found(NamedTuple):
    """A deployment, how many of it the load needs, and one replica's share of it."""

    choice: Choice
    fleet: Fleet
    replicas: int
    point: Point
    usd_per_hour: float | None
    place: int = 0  # of the choice, among those of its search
    hopeless: bool = False  # no setting makes it cheaper than the cheapest

    @property
    def kept(self) -> bool:
        return self.point.kept

    @property
    def tpot_s(self) -> float:
        """What one user waits for a token; of a request's whole time where there is one token only."""
        tpot = self.point.tpot_s
        return self.point.seconds if tpot is None else tpot


class Limits(NamedTuple):
    """What all replicas may take: GPUs by name, USD an hour; None: no limit."""

    gpus: Mapping[str, int] | None = None
    usd_per_hour: float | None = None

    def keeps(self, one: "Found") -> bool:
        """A deployment without a price keeps no limit on its bill."""
        deployed = one.fleet.deployed
        there = None if self.gpus is None else self.gpus.get(deployed.gpu.name, 0)
        if there is not None and one.replicas * deployed.deployment.gpus > there:
            return False
        if self.usd_per_hour is None:
            return True
        return one.usd_per_hour is not None and one.usd_per_hour <= self.usd_per_hour


class Unfit(NamedTuple):
    """A deployment that does not fit: the memory of its GPUs together, what they are, and why."""

    memory_bytes: int
    where: str
    why: str


class Searched(NamedTuple):
    """What a search came to: those that fit, with or without the targets kept, and why others do not fit."""

    found: list[Found]
    unfit: list[Unfit]
    refused: list[tuple[str, str]]  # errors, with their hints, of what cannot be deployed at all
    tried: int

    def __add__(self, other: "Searched") -> "Searched":  # type: ignore[override]
        return Searched(
            self.found + other.found,
            self.unfit + other.unfit,
            self.refused + other.refused,
            self.tried + other.tried,
        )

    def within(self, limits: Limits) -> "Outcome":
        """Told apart by what became of them."""
        kept = [one for one in self.found if one.kept]
        return Outcome(
            met=[one for one in kept if limits.keeps(one)],
            beyond=[one for one in kept if not limits.keeps(one)],
            missed=[one for one in self.found if not one.kept],
            unfit=self.unfit,
            refused=self.refused,
            tried=self.tried,
        )


class Outcome(NamedTuple):
    """What became of the choices."""

    met: list[Found]
    beyond: list[Found]  # they would, with more GPUs or money than there are
    missed: list[Found]  # they fit, and one client alone breaks a target
    unfit: list[Unfit]
    refused: list[tuple[str, str]]
    tried: int

    @property
    def nearest(self) -> list[Found]:
        """Of those that miss a target with one client, the nearest first."""
        return sorted(self.missed, key=lambda one: one.point.tightest)


def search(space: Space, names: Sequence[str], demand: Demand, targets: Targets) -> Searched:
    """Every deployment with the fewest replicas that carry the load within the targets."""
    done: list[Found] = []
    unfit: list[Unfit] = []
    refused: list[tuple[str, str]] = []
    tried, dense = 0, 0.0  # clients a byte/s of the last deployment, where the next one begins
    for choice in space.choices(names):
        tried += 1
        try:
            found = _found(space, choice, (demand, targets), dense)
        except KvcalcError as error:
            refused.append((error.message, error.hint))
            continue
        if isinstance(found, Unfit):
            unfit.append(found)
            continue
        done.append(found._replace(place=tried - 1))
        if found.kept:
            dense = found.point.clients / _bandwidth(found.fleet.deployed)
    return Searched(done, unfit, refused, tried)


def _found(space: Space, choice: Choice, asked: tuple[Demand, Targets], dense: float) -> Found | Unfit:
    """The deployment with the fewest replicas, or why it does not fit."""
    deployed = Deployed(choice.question)
    why = _unfit(deployed, asked[1])
    if why is not None:
        shorter = space.shorter(choice) if deployed.weight_bytes_per_gpu < deployed.budget.requested else None
        if shorter is None:
            return _too_small(deployed, why)
        choice, deployed = shorter, Deployed(shorter.question)
        if _unfit(deployed, asked[1]) is not None:
            return _too_small(deployed, why)
    return fewest(choice, Fleet(deployed, *asked), round(dense * _bandwidth(deployed)) or None)


def fewest(choice: Choice, fleet: Fleet, guess: int | None = None) -> Found:
    """A deployment that fits, with the fewest replicas; with one client where even that one breaks a target."""
    deployed, replicas = fleet.deployed, fleet.fewest(guess)
    point = fleet.at(1) if replicas is None else fleet.at(fleet.share(replicas))
    paid = bill(deployed.gpu, deployed.deployment, replicas or 1)
    return Found(choice, fleet, replicas or 1, point, paid.usd_per_hour)


def _too_small(deployed: Deployed, why: str) -> Unfit:
    gpus, gpu = deployed.deployment.gpus, deployed.gpu
    return Unfit(gpus * gpu.memory_bytes, f"{gpus} × {gpu.name}", why)


def _unfit(deployed: Deployed, targets: Targets) -> str | None:
    end: End = "low" if targets.judge == "high" else "value"
    if deployed.weight_bytes_per_gpu > deployed.gpu.memory_bytes:
        return "the weights exceed the memory"
    return unfit_reason(deployed, operating_point(deployed), end=end)


def _bandwidth(deployed: Deployed) -> float:
    """Of all GPUs of a replica."""
    return deployed.deployment.gpus * deployed.gpu.memory_bandwidth_bytes_per_s
