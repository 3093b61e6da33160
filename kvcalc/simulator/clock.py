"""From step to step, and from event to event: when steps are planned, start and end.

With a lag of one, step k + 1 is planned when step k - 1 ends, while step k runs; without, when step k ends. Where
nothing changes by itself, equal steps pass at once: their times are an arithmetic series, and the one before which an
arrival is seen is solved for.
"""

from math import ceil, sqrt

from kvcalc.errors import KvcalcError
from kvcalc.simulator.arrivals import NEVER, Arrivals
from kvcalc.simulator.state import Observer, Scheduler


class Clock:
    """One engine in time."""

    def __init__(self, scheduler: Scheduler, arrivals: Arrivals, observer: Observer, jumps: bool = True) -> None:
        """`jumps` false: every step singly."""
        self.scheduler, self.arrivals, self.observer = scheduler, arrivals, observer
        self.lag, self.jumps = scheduler.settings.lag, jumps
        self.recv_interval = scheduler.settings.recv_interval
        self.step = 0
        self.planned_s = 0.0  # when the last step was planned
        self.before_s = 0.0  # end of the step before the last one
        self.end_s = 0.0  # end of the last one

    def run(self, until_s: float = NEVER) -> None:
        """All steps that are planned before a time: by default all."""
        while (now := self.next_s()) < until_s:
            self._one(now, until_s)

    def next_s(self) -> float:
        """When the next step is planned; infinity: there is nothing to plan for."""
        now = self.before_s if self.lag else self.end_s
        if self.planned_s > now:
            now = self.planned_s
        scheduler = self.scheduler
        if scheduler.running or scheduler.waiting or now < self.end_s:
            return now
        return max(now, self.arrivals.next_s)

    def _one(self, now: float, until_s: float) -> None:
        scheduler, arrivals = self.scheduler, self.arrivals
        self.planned_s = now
        scheduler.settle(self.step - 1 if now >= self.end_s else self.step - 1 - self.lag)
        looks = self.step % self.recv_interval == 0 or not scheduler.running
        while looks and arrivals.next_s <= now:
            scheduler.waiting.append(arrivals.pop())
        steps = scheduler.plan(self.step)
        if steps:
            self._pass(steps, now if now > self.end_s else self.end_s, until_s)
        elif now < self.end_s:
            self.before_s = self.planned_s = self.end_s  # results are awaited, then the same step is planned again
        elif scheduler.waiting:
            self._await_arrival()

    def _await_arrival(self) -> None:
        """Nothing that waits can run: only what arrives could change that."""
        if self.arrivals.next_s == NEVER:
            raise KvcalcError("a request can never run: it needs more blocks than there are", hint="lower its length")
        self.planned_s = self.end_s = self.before_s = self.arrivals.next_s

    def _pass(self, steps: int, start: float, until_s: float) -> None:
        cost, growth, _ = self.scheduler.line
        if steps > 1:
            steps = self._bounded(steps, start, until_s, cost, growth)
        if steps > 1:
            less = steps - 1
            self.before_s = start + less * cost + growth * (less * (less - 1) / 2)
            end = start + steps * cost + growth * (steps * less / 2)
        else:
            self.before_s = self.end_s
            end = start + cost
        self.end_s = end
        self.observer.passed(self.scheduler, steps, start, end)
        finished = self.scheduler.passed(self.step, steps, end)
        if self.arrivals.listens:
            for request in finished:
                self.arrivals.answered(request, end)
        self.step += steps

    def _bounded(self, steps: int, start: float, until_s: float, cost: float, growth: float) -> int:
        """Equal steps until one sees an arrival, or is planned after a time that was set."""
        if not self.jumps:
            return 1
        # who looks seldom must not pass a look by: what it sees may start between two of them
        looks = self.scheduler.open or self.recv_interval > 1
        bound = min(self.arrivals.next_s, until_s) if looks else until_s
        if bound == NEVER:
            return steps
        if start + (steps - 1) * (cost + growth * (steps / 2)) < bound:
            return steps  # all end before it
        seen = self._steps_before(bound, start, cost, growth)
        if self.recv_interval > 1:
            seen += -(self.step + seen) % self.recv_interval
        return min(steps, seen)

    def _steps_before(self, arrival: float, start: float, cost: float, growth: float) -> int:
        """Steps until one is planned at or after an arrival."""
        if self.lag and arrival <= self.end_s:
            return 1
        # the first k whose step ends at or after the arrival
        span = arrival - start
        linear = cost - growth / 2
        if growth <= 0 or growth * span < 1e-12 * linear * linear:
            count = ceil(span / cost)
        else:
            count = ceil((sqrt(linear * linear + 2 * growth * span) - linear) / growth)
        count = max(1, count)
        while count > 1 and start + (count - 1) * cost + growth * ((count - 1) * (count - 2) / 2) >= arrival:
            count -= 1
        while start + count * cost + growth * (count * (count - 1) / 2) < arrival:
            count += 1
        return count + self.lag
