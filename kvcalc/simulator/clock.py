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

    @property
    def next_s(self) -> float:
        """When the next step is planned; infinity: nothing is there to plan for."""
        now = max(self.planned_s, self.before_s if self.lag else self.end_s)
        if now >= self.end_s and not self.scheduler.running and not self.scheduler.waiting:
            return max(now, self.arrivals.next_s)
        return now

    def run(self, until_s: float = NEVER) -> None:
        """All steps that are planned before a time: by default all."""
        scheduler, arrivals, observer, lag = self.scheduler, self.arrivals, self.observer, self.lag
        step, planned, before, end, steps = self.step, self.planned_s, self.before_s, self.end_s, 0
        while True:
            now = before if lag else end
            if planned > now:
                now = planned
            if now >= end and not scheduler.running and not scheduler.waiting:
                now = max(now, arrivals.next_s)
            if now >= until_s:  # or there is nothing to plan for
                if steps > 1:  # who looks now sees what was known when the last step of a jump was planned
                    scheduler.settle(step - 2 - lag)
                break
            planned = now
            if scheduler.ended:
                scheduler.settle(step - 1 if now >= end else step - 1 - lag)
            if arrivals.next_s <= now and (step % self.recv_interval == 0 or not scheduler.running):
                self._receive(now)
            steps = scheduler.plan(step)
            if not steps:
                if now < end:
                    before = planned = end  # results are awaited, then the same step is planned again
                elif scheduler.waiting and not scheduler.again:
                    planned = before = end = self._next_arrival()
                continue
            cost, growth, _ = scheduler.line
            start = now if now > end else end
            if steps > 1:
                steps = self._bounded(steps, step, (start, end), until_s)
            if steps > 1:
                less = steps - 1
                before = start + less * cost + growth * (less * (less - 1) / 2)
                end = start + steps * cost + growth * (steps * less / 2)
            else:
                before, end = end, start + cost
            observer.passed(scheduler, steps, start, end)
            finished = scheduler.passed(step, steps, end)
            if finished and arrivals.listens:
                until_s = min(until_s, arrivals.answered(finished, end))
            step += steps
        self.step, self.planned_s, self.before_s, self.end_s = step, planned, before, end

    def _receive(self, now: float) -> None:
        """What has arrived by now goes into the queue."""
        arrivals, waiting = self.arrivals, self.scheduler.waiting
        while arrivals.next_s <= now:
            waiting.append(arrivals.pop())

    def _next_arrival(self) -> float:
        """Nothing that waits can run: only what arrives could change that."""
        if self.arrivals.next_s == NEVER:
            raise KvcalcError("a request can never run: it needs more blocks than there are", hint="lower its length")
        return self.arrivals.next_s

    def _bounded(self, steps: int, step: int, ends: tuple[float, float], until_s: float) -> int:
        """Equal steps until one sees an arrival, or is planned after a time that was set.

        `ends`: when the first of them starts, and when the one before it ends.
        """
        if not self.jumps:
            return 1
        # who looks seldom must not pass a look by: what it sees may start between two of them
        bound = self.arrivals.next_s if self.scheduler.open or self.recv_interval > 1 else until_s
        if until_s < bound:
            bound = until_s
        if bound == NEVER:
            return steps
        start, end = ends
        cost, growth, _ = self.scheduler.line
        if start + (steps - 1) * (cost + growth * (steps / 2)) < bound:
            return steps  # all end before it
        seen = 1 if self.lag and bound <= end else self.lag + steps_before(bound, start, cost, growth)
        if self.recv_interval > 1:
            seen += -(step + seen) % self.recv_interval
            if until_s < NEVER:  # for who set a time every step counts
                set_s = until_s, start, cost, growth
                seen = min(seen, 1 if self.lag and until_s <= end else self.lag + steps_before(*set_s))
        return seen if seen < steps else steps


def steps_before(time: float, start: float, cost: float, growth: float) -> int:
    """The first k so that k steps from `start` on end at `time` or after it: start + k cost + growth k (k - 1) / 2.

    >>> steps_before(0.0301, 0.0, 0.01, 0.0), steps_before(6.0, 0.0, 1.0, 1.0), steps_before(6.1, 0.0, 1.0, 1.0)
    (4, 3, 4)
    """
    span, linear = time - start, cost - growth / 2
    if growth <= 0 or growth * span < 1e-12 * linear * linear:
        count = ceil(span / cost)
    else:
        count = ceil((sqrt(linear * linear + 2 * growth * span) - linear) / growth)
    if count < 1:
        count = 1
    # rounding may be one off, either way
    while count > 1 and start + (count - 1) * cost + growth * ((count - 1) * (count - 2) / 2) >= time:
        count -= 1
    while start + count * cost + growth * (count * (count - 1) / 2) < time:
        count += 1
    return count
