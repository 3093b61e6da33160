"""What users ask of a plan in all: so many at once, or so many requests a second.

A replica that keeps C requests in flight, each of T seconds, finishes C / T of them a second (Little's law). Of users
who think Z seconds between an answer and their next request it carries C · (1 + Z / T): those in flight, and those who
think.
"""

from typing import NamedTuple

from kvcalc.answers.plan.settings import PlanSettings
from kvcalc.errors import KvcalcError

DAY_S = 86_400
HINT = "give --users (with --think-time), --request-rate, or --requests-per-day (with --peak-factor)"


class Demand(NamedTuple):
    """The whole load: users, or requests a second."""

    users: int | None
    think_s: float
    request_rate: float | None

    @property
    def total(self) -> float:
        """Users, or requests a second."""
        return float(self.users if self.request_rate is None else self.request_rate)  # type: ignore[arg-type]

    @property
    def carries_clients(self) -> bool:
        """Whether the load is nothing but clients, each with one request in flight."""
        return self.request_rate is None and not self.think_s

    def carried(self, in_flight: float, seconds: float) -> float:
        """Of the load, what so many requests in flight are, each of so many seconds.

        >>> Demand(200, 0, None).carried(50, 10), Demand(200, 10, None).carried(50, 10)
        (50.0, 100.0)
        """
        if self.request_rate is not None:
            return in_flight / seconds
        return in_flight * (1 + self.think_s / seconds)

    def rate(self, seconds: float) -> float:
        """Requests a second, where each takes so many seconds.

        >>> Demand(200, 10, None).rate(10), Demand(None, 0, 9).rate(10)
        (10.0, 9)
        """
        return self.request_rate if self.request_rate is not None else (self.users or 0) / (seconds + self.think_s)

    def in_flight(self, load: float, seconds: float) -> float:
        """The other way round: requests in flight at a part of the load.

        >>> Demand(200, 10, None).in_flight(100, 10), Demand(None, 0, 9).in_flight(5, 10)
        (50.0, 50)
        """
        if self.request_rate is not None:
            return load * seconds
        return load / (1 + self.think_s / seconds)


def demand(settings: PlanSettings, traced: float | None = None) -> Demand:
    """The load that flags describe, else a trace's requests a second.

    Raises:
        KvcalcError: none, or two of them.
    """
    given = {
        "--users": settings.users, "--request-rate": settings.request_rate,
        "--requests-per-day": settings.requests_per_day,
    }  # fmt: skip
    names = [name for name, value in given.items() if value is not None]
    if not names and traced is not None:
        return Demand(None, 0.0, traced)
    if not names:
        raise KvcalcError("how large is the load?", hint=HINT)
    if len(names) > 1:
        raise KvcalcError(f"{names[0]} and {names[1]} say the load twice", hint="leave one of them out")
    _refuse_lone(settings.think_s, "--think-time", "--users", names)
    _refuse_lone(settings.peak_factor, "--peak-factor", "--requests-per-day", names)
    rate = settings.request_rate
    if settings.requests_per_day is not None:
        rate = settings.requests_per_day * (settings.peak_factor or 1) / DAY_S
    return Demand(settings.users, settings.think_s or 0.0, rate)


def _refuse_lone(value: float | None, flag: str, beside: str, given: list[str]) -> None:
    if value is not None and beside not in given:
        raise KvcalcError(f"{flag} changes nothing without {beside}", hint=f"give {beside}, or leave {flag} out")
