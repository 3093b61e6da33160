"""Time, step by step: who arrives, which step is planned, how long it takes, who has its last token in it.

An engine is a policy: `waiting`, `running`, `plan(step)` and `gone(sequence)`; several in one loop step together.
"""

import math

from tests.simulator.reference.blocks import Sequence


class Loop:
    """One clock."""

    def __init__(self, engines, requests, times, order=None, route=None, front_s=0.0):
        self.engines, self.requests, self.times, self.route = engines, requests, times, route
        self.settings, self.front_s = engines[0].settings, front_s
        self.first, self.last = {}, {}
        self.gaps, self.steps = [], 0
        self.planned = self.before = self.end = 0.0
        self.ran_until = 0.0
        self.in_flight = []  # (end, engine, sequence) of last tokens
        order = list(range(len(requests))) if order is None else order
        self.after = {}
        for i in range(len(requests)):
            if requests.after is not None and requests.after[i] >= 0:
                self.after.setdefault(requests.after[i], []).append(i)
                order = [one for one in order if one != i]
        self.unsent = []
        if requests.clients is None:
            self.to_come = [(requests.arrival_s[i] + front_s, i) for i in order]
        else:
            self.to_come, self.unsent = [(front_s, i) for i in order[: requests.clients]], order[requests.clients :]
        self.tell = None  # who wants to know of last tokens
        for engine in engines:
            engine.loop = self

    def offer(self, request, at):
        self.to_come.append((at + self.front_s, request))

    def next_s(self):
        """When the next step is planned; infinity: never."""
        now = max(self.planned, self.before if self.settings.lag else self.end)
        busy = any(engine.busy for engine in self.engines)
        return now if busy else max(now, min(self.to_come)[0] if self.to_come else math.inf)

    def run(self, until=math.inf):
        while self.next_s() < until:
            self.turn()

    def turn(self):
        """One step is planned and runs, or time passes until one can be."""
        self.planned = now = self.next_s()
        for _, engine, sequence in [one for one in self.in_flight if one[0] <= now]:
            engine.gone(sequence)
        self.in_flight = [one for one in self.in_flight if one[0] > now]
        looks = self.steps % self.settings.recv_interval == 0 or not any(engine.taken for engine in self.engines)
        if looks:
            self.receive(now)
        plans = [engine.plan(self.steps) for engine in self.engines]
        if any(plans):
            self.step(plans, max(now, self.end))
        elif now < self.end:
            self.before = self.planned = self.end  # results are awaited
        elif any(engine.again for engine in self.engines):
            pass  # all were stopped who would have run: an empty step takes no time
        elif any(engine.waiting for engine in self.engines):
            assert self.to_come, "a request can never run"
            self.before, self.planned, self.end = self.end, min(self.to_come)[0], min(self.to_come)[0]

    def receive(self, now):
        for arrival in sorted(one for one in self.to_come if one[0] <= now):
            self.to_come.remove(arrival)
            engine = self.engines[self.route(arrival[1]) if self.route else 0]
            engine.receive(self.sequence(arrival[1]))

    def sequence(self, number):
        return Sequence(number, self.requests)

    def step(self, plans, start):
        cost = max(self.cost(engine, plan) for engine, plan in zip(self.engines, plans, strict=True) if plan)
        end = start + cost
        for engine, plan in zip(self.engines, plans, strict=True):
            finished = [sequence for sequence, tokens in plan if self.passed(engine, sequence, tokens, end)]
            for sequence in finished:
                self.in_flight.append((end, engine, sequence))
                self.last[sequence.number] = end
                if self.tell:
                    self.tell(sequence.number, end)
                for follower in self.after.get(sequence.number, ()):
                    self.offer(follower, end + self.requests.pause_s[follower])
                if self.unsent and sequence.number not in self.after:
                    self.offer(self.unsent.pop(0), end + self.requests.think_s)
            if plan:
                engine.passed(plan)
        self.before, self.end, self.ran_until = self.end, end, end
        self.steps += 1

    def cost(self, engine, plan):
        decodes = [one.computed for one, _ in plan if one.decodes]
        chunks = [(one.computed, tokens) for one, tokens in plan if not one.decodes]
        inside = [sum(min(have, window) for have in decodes) for window in self.times.windows]
        if chunks:
            return self.times.mixed(len(decodes), sum(decodes), inside, chunks) + engine.more_s
        return self.times.decode(len(decodes), sum(decodes), inside, [0] * len(inside))[0] + engine.more_s

    def passed(self, engine, sequence, tokens, end):
        """Whether a sequence has had its last token."""
        if sequence.decodes:
            given = min(engine.give(sequence.number), sequence.output - sequence.generated)
            sequence.computed += given
        else:
            given = 1
            sequence.computed += tokens
            if sequence.computed < sequence.known:
                return False
        sequence.generated += given
        if sequence.last is None:
            self.first[sequence.number] = end
        elif sequence.preempted or sequence.restored:
            self.gaps.append(end - sequence.last)
        sequence.preempted = sequence.restored = False
        sequence.last = end
        return sequence.ended


def outcome(loops, count):
    """What a run gave, of all loops together."""
    engines = [engine for loop in loops for engine in loop.engines]
    first, last = ({k: v for loop in loops for k, v in getattr(loop, name).items()} for name in ("first", "last"))
    return {
        "first": [first.get(i) for i in range(count)],
        "last": [last.get(i) for i in range(count)],
        "steps": sum(loop.steps for loop in loops),
        "gaps": [gap for loop in loops for gap in loop.gaps],
        **{
            name: sum(getattr(one, name) for one in engines) for name in ("preemptions", "recomputed", "hit", "queried")
        },
        "full": min((one.full_s for one in engines if one.full_s is not None), default=None),
    }
