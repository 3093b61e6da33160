"""What would mend a broken limit: each change is judged by that very limit, so that a slow deployment hears of speed.

Where memory is what broke, `answers.advice` says it, with tokens and sequences.
"""

from collections.abc import Sequence

from kvcalc.answers.advice import added, advice
from kvcalc.answers.changes import Change, changed, changes
from kvcalc.answers.check.figures import AT_LEAST, UNFIT, Judging, judged
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.performance import Performance
from kvcalc.answers.size.answer import size
from kvcalc.errors import KvcalcError
from kvcalc.results.check import LimitResult
from kvcalc.results.size import Advice
from kvcalc.specs.budget import Limits
from kvcalc.units import format_count, format_seconds, format_usd

MEMORY = ("fits", "min-sequences", "min-batch", "min-tokens")
# A simulated limit is advised by the closed loop's figure: each change would be a simulation of its own.
LIKE = {"max-simulated-ttft": "max-ttft", "max-simulated-tpot": "max-tpot", "max-simulated-e2e": "max-tpot",
        "min-goodput": "min-tokens-per-second"}  # fmt: skip
GOAL = {"max-tpot": "speed", "max-ttft": "speed", "min-tokens-per-second": "speed", "max-usd-per-mtok": "cost",
        "max-usd-per-month": "cost"}  # fmt: skip
LEAST_GAIN = 0.02


def mending(deployed: Deployed, broken: Sequence[LimitResult], limits: Limits) -> dict[str, list[Advice]]:
    """By limit, the changes that help it: those that keep it first, with the fewest GPUs; then the strongest."""
    room = [one for one in advice(Performance(deployed)) if one.goal in ("fit", "batch")]
    return {
        limit.name: room
        if limit.name in MEMORY or limit.judged_on == UNFIT
        else _better(deployed, LIKE.get(limit.name, limit.name), limit, limits)
        for limit in broken
    }


def _better(deployed: Deployed, name: str, limit: LimitResult, limits: Limits) -> list[Advice]:
    """What each change makes of one limit."""
    now = _have(deployed, name, limits)
    if now is None or isinstance(limit.want, bool):
        return []
    found: list[tuple[tuple[bool, int, float], Advice]] = []
    for change in changes(deployed):
        after = _after(deployed, change, name, limits)
        if after is None:
            continue
        other, have = after
        gain = have[0] / now[0] if now[1] == AT_LEAST else now[0] / have[0]
        if gain < 1 + LEAST_GAIN:
            continue
        kept = have[0] >= limit.want if now[1] == AT_LEAST else have[0] <= limit.want
        end = " keeps it" if kept and name == limit.name else ""
        effect = f"{name}{end}: {_said(name, have[0])} instead of {_said(name, now[0])}"
        more = other.deployment.gpus - deployed.deployment.gpus
        effect += added(more, other.bill.usd_per_hour, deployed.bill.usd_per_hour)
        order = (not end, more if end else 0, -gain)
        found.append((order, Advice(change=change.flag, effect=effect, goal=GOAL.get(name, "weights"))))
    return [one for _, one in sorted(found, key=lambda pair: pair[0])]


def _said(name: str, value: float) -> str:
    if name in ("max-tpot", "max-ttft"):
        return format_seconds(value)
    return format_usd(value) if GOAL.get(name) == "cost" else format_count(value)


def _after(deployed: Deployed, change: Change, name: str, limits: Limits) -> tuple[Deployed, tuple[float, str]] | None:
    """None where the change is not possible, or leaves nothing to judge."""
    try:
        other = changed(deployed, change.update)
        have = _have(other, name, limits)
    except KvcalcError:
        return None
    return None if have is None or have[0] <= 0 else (other, have)


def _have(deployed: Deployed, name: str, limits: Limits) -> tuple[float, str] | None:
    """A limit's figure, and which way it must lie; None where there is none, or it does not fit."""
    result = size(deployed.question, with_advice=False, with_working=False).result
    if result.fits is False:
        return None
    have, way, _ = judged(name, Judging(deployed, result, limits))
    return None if have is None or isinstance(have, bool) else (have, way)
