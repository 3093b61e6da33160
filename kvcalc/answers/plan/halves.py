"""The search on two cores: another process takes every other GPU, and sends back what it found as plain numbers.

Only its points and replicas come back; deployments are put together again where they are looked at. Nothing depends on
where a deployment was searched, so that one process, two, and one that fails all give the same answer.
"""

import marshal
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from kvcalc.answers.deployed import Deployed
from kvcalc.answers.plan.demand import Demand
from kvcalc.answers.plan.fleet import Fleet, Point
from kvcalc.answers.plan.search import Found, Limits, Searched, Unfit, search
from kvcalc.answers.plan.space import Choice, Space
from kvcalc.answers.plan.targets import Targets
from kvcalc.answers.plan.tuning import hopeless

WORTH_IT = 8  # GPUs: with fewer the answer is there before another process is


class Load(NamedTuple):
    """What deployments are searched for."""

    demand: Demand
    targets: Targets
    limits: Limits


def searched(space: Space, names: Sequence[str], load: Load, cores: int = 1) -> Searched:
    """Every deployment with the fewest replicas, by so many processes."""
    if cores < 2 or len(names) < WORTH_IT or not hasattr(os, "fork"):
        return search(space, names, load.demand, load.targets)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.close(reader)
        _child(writer, space, names[1::2], load)
    os.close(writer)
    own = search(space, names[::2], load.demand, load.targets)
    with os.fdopen(reader, "rb") as file:
        sent = file.read()
    os.waitpid(child, 0)
    other = _rebuilt(space, names[1::2], load, sent)
    return own + (search(space, names[1::2], load.demand, load.targets) if other is None else other)


def _child(writer: int, space: Space, names: Sequence[str], load: Load) -> None:
    """Search, write, and end without anything that the parent will do itself."""
    code = 1
    try:
        done = search(space, names, load.demand, load.targets)
        doomed = hopeless(done.found, load.limits)
        rows = [(one.place, one.choice.flags.get("max_model_len"), one.replicas, one.usd_per_hour, one.point.clients,
                 [tuple(point) for point in one.fleet.points], id(one) in doomed) for one in done.found]  # fmt: skip
        with os.fdopen(writer, "wb") as file:
            file.write(marshal.dumps((rows, [tuple(one) for one in done.unfit], done.refused, done.tried)))
        code = 0
    finally:
        os._exit(code)


def _rebuilt(space: Space, names: Sequence[str], load: Load, sent: bytes) -> Searched | None:
    """What the other process found; None: it did not come to an end."""
    if not sent:
        return None
    rows, unfit, refused, tried = marshal.loads(sent)
    choices = list(space.choices(names))
    found = [_found(space, choices[row[0]], load, row) for row in rows]
    return Searched(found, [Unfit(*one) for one in unfit], refused, tried)


def _found(space: Space, choice: Choice, load: Load, row: tuple[Any, ...]) -> Found:
    place, length, replicas, bill, clients, points, doomed = row
    if length != choice.flags.get("max_model_len"):
        shorter = space.shorter(choice)
        assert shorter is not None
        choice = shorter
    fleet = Fleet(Deployed(choice.question), load.demand, load.targets)
    fleet.take(Point(*point) for point in points)
    return Found(choice, fleet, replicas, fleet.at(clients), bill, place, doomed)
