"""What would make it fit, double the batch, or cut the cost: each change is put through the whole calculation."""

from typing import NamedTuple

from kvcalc.answers.changes import FOUR_BITS, Change, changed, changes
from kvcalc.answers.deployed import Deployed
from kvcalc.answers.load import OperatingPoint, operating_point
from kvcalc.answers.offload import offloaded
from kvcalc.answers.performance import Performance
from kvcalc.answers.verdict import unfit_reason
from kvcalc.errors import KvcalcError
from kvcalc.results.size import Advice
from kvcalc.units import GIB, format_bytes, format_count, format_things, format_usd

WORTH_SAYING = 1.05  # a change that gives less is noise
MOST = 6


class Outcome(NamedTuple):
    """What a deployment comes to; None where it is not known, or has no limit."""

    fits: bool
    tokens: int | None
    batch: int | None  # whole sequences at the context
    pool: int | None
    longest: int | None  # tokens of one sequence, at most max_model_len
    usd: float | None  # per million output tokens
    gpus: int
    usd_per_hour: float | None  # the whole bill


def advice(speed: Performance, measured_pool: int | None = None) -> tuple[Advice, ...]:
    """Changes worth making, the strongest first.

    Args:
        speed: the deployment as it is, at its operating point and with its clients.
        measured_pool: bytes per GPU that a log says were available; a change then moves the measured pool by what
            the prediction moves.
    """
    deployed, point = speed.deployed, speed.point
    now = _outcome(speed, point, measured_pool)
    if now.pool is None:
        return ()
    outcomes = [(change, _changed(deployed, change, point, measured_pool)) for change in changes(deployed)]
    tried = [(change, outcome) for change, outcome in outcomes if outcome is not None]
    found = _shorter(deployed, now)
    if now.fits:
        tried = [one for one in tried if one[0].flag != FOUR_BITS]  # worth another checkpoint only where nothing fits
        found += _to_hold_more([one for one in tried if one[1].gpus <= 2 * now.gpus], now, point)
    else:
        found += _to_fit(tried, now, point) + _to_reach_further(tried, now)
        found += [] if measured_pool is not None else offloaded(deployed.question)
    said = {one.change for one in found}
    found += _to_cost_less([one for one in tried if one[0].flag not in said], now)
    return tuple(found[:MOST])


def _outcome(speed: Performance, point: OperatingPoint, measured_pool: int | None) -> Outcome:
    seen, deployed = measured_pool is not None, speed.deployed
    if measured_pool is not None:
        deployed = changed(deployed, {"kv_memory_bytes": max(0, measured_pool)})
    held = deployed.capacity
    usd = None
    if held is not None and not seen and speed.headline is not None:
        cost = speed.headline.usd_per_million_output_tokens
        usd = None if cost is None else cost.value
    return Outcome(
        fits=unfit_reason(deployed, point, seen) is None,
        tokens=held.kv_cache_size_tokens if held else None,
        batch=held.max_batch(deployed.slots(point.context)) if held else None,
        pool=deployed.pool_bytes,
        longest=deployed.longest(seen),
        usd=usd,
        gpus=speed.deployed.deployment.gpus,
        usd_per_hour=speed.deployed.bill.usd_per_hour,
    )


def _changed(deployed: Deployed, change: Change, point: OperatingPoint, measured_pool: int | None) -> Outcome | None:
    """None where the change is not possible: heads that do not divide, an unknown format."""
    try:
        other = changed(deployed, change.update)
        if measured_pool is None:
            return _outcome(Performance(other), operating_point(other), None)
        if other.pool_bytes is None or deployed.budget.pool is None or other.budget.pool is None:
            return None
        moved = measured_pool + other.budget.pool.value - deployed.budget.pool.value
        return _outcome(Performance(other), point, moved)
    except KvcalcError:
        return None


def _shorter(deployed: Deployed, now: Outcome) -> list[Advice]:
    """A length that fits, where one sequence of max_model_len does not."""
    length, longest = deployed.max_model_len, now.longest
    if length is None or not longest or longest >= length or not deployed.engine.TIMED:
        return []
    return [Advice(change=f"--max-model-len {longest}", effect=_up_to(longest), goal="fit")]


def _up_to(length: int) -> str:
    return f"max_model_len up to {format_count(length)} fits"


def _to_reach_further(tried: list[tuple[Change, Outcome]], now: Outcome) -> list[Advice]:
    """Changes that do not make it fit, but a longer sequence than now."""
    further = [
        (outcome.longest, change.flag, _added(outcome, now) + _needs(change))
        for change, outcome in tried
        if not outcome.fits and (outcome.longest or 0) >= WORTH_SAYING * (now.longest or 0)
    ]
    return [
        Advice(change=flag, effect=_up_to(longest) + added, goal="fit")
        for longest, flag, added in sorted(further, key=lambda one: -(one[0] or 0))
        if longest
    ]


def _to_fit(tried: list[tuple[Change, Outcome]], now: Outcome, point: OperatingPoint) -> list[Advice]:
    """Every change that makes it fit; of more GPUs, the fewest."""
    fitting = [(change, outcome) for change, outcome in tried if outcome.fits]
    fewest = min((outcome.gpus for _, outcome in fitting if outcome.gpus > now.gpus), default=now.gpus)
    return [
        Advice(
            change=change.flag,
            effect=f"then it fits: {_count(outcome.tokens)} tokens, {_sequences(outcome.batch, point.context)}"
            + _added(outcome, now)
            + _needs(change),
            goal="fit",
        )
        for change, outcome in fitting
        if outcome.gpus <= fewest
    ]


def _to_hold_more(tried: list[tuple[Change, Outcome]], now: Outcome, point: OperatingPoint) -> list[Advice]:
    ranked = []
    for change, outcome in tried:
        ratio = _ratio(outcome.tokens, now.tokens) or _ratio(outcome.batch, now.batch)
        if ratio is not None and ratio >= WORTH_SAYING:
            ranked.append((ratio, change, outcome))
    ranked.sort(key=lambda one: -one[0])
    return [
        Advice(change=change.flag, effect=_more(ratio, outcome, now, point), goal="batch")
        for ratio, change, outcome in ranked
    ]


def _more(ratio: float, outcome: Outcome, now: Outcome, point: OperatingPoint) -> str:
    said = f"{ratio:.1f}× the tokens: {_count(outcome.tokens)} instead of {_count(now.tokens)}"
    if now.tokens is None:  # a cache that does not grow with tokens
        said = f"{ratio:.1f}× the sequences: {_count(outcome.batch)} instead of {_count(now.batch)}"
    elif outcome.batch != now.batch and now.batch is not None:
        said += f"; {_sequences(outcome.batch, point.context)} instead of {_count(now.batch)}"
    freed = (outcome.pool or 0) - (now.pool or 0)
    said += f"; {format_bytes(freed)} more cache per GPU" if freed > 0.05 * GIB else ""
    said += f"; {_cheaper(outcome.usd, now.usd)}" if _saves(outcome, now) else ""
    return said + _added(outcome, now)


def _needs(change: Change) -> str:
    return "; needs a checkpoint that is stored so" if change.flag == FOUR_BITS else ""


def _added(outcome: Outcome, now: Outcome) -> str:
    return added(outcome.gpus - now.gpus, outcome.usd_per_hour, now.usd_per_hour)


def added(gpus: int, usd_per_hour: float | None, before: float | None) -> str:
    """The GPUs that a change adds, and what they cost; the bills are of the whole deployment, after and before.

    >>> added(1, 5.0, 2.5), added(0, 2.5, 2.5)
    ('; 1 GPU more, $2.50 an hour more', '')
    """
    if gpus <= 0:
        return ""
    said = f"; {format_things(gpus, 'GPU')} more"
    if usd_per_hour is None or before is None:
        return said
    dearer = usd_per_hour - before  # a whole machine's bill need not change
    return f"{said}, {format_usd(dearer)} an hour more" if dearer > 0 else f"{said}, which the bill has already"


def _saves(outcome: Outcome, now: Outcome) -> bool:
    return outcome.usd is not None and now.usd is not None and outcome.usd * WORTH_SAYING <= now.usd


def _cheaper(usd: float | None, before: float | None) -> str:
    return f"{format_usd(usd or 0)} per million output tokens instead of {format_usd(before or 0)}"


def _to_cost_less(tried: list[tuple[Change, Outcome]], now: Outcome) -> list[Advice]:
    cheaper = [(change, outcome) for change, outcome in tried if outcome.fits and _saves(outcome, now)]
    cheaper.sort(key=lambda one: one[1].usd or 0)
    return [
        Advice(change=change.flag, effect=_cheaper(outcome.usd, now.usd) + _added(outcome, now), goal="cost")
        for change, outcome in cheaper[:2]
    ]


def _ratio(new: int | None, old: int | None) -> float | None:
    return new / old if new is not None and old else None


def _sequences(number: int | None, context: int) -> str:
    return f"{_count(number)} sequence{'' if number == 1 else 's'} of {format_count(context)}"


def _count(value: int | None) -> str:
    return "any number of" if value is None else format_count(value)
