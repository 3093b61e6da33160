"""A workload through the plain schedulers: one engine, several behind a router or in step, two pools."""

import math
from dataclasses import replace

from tests.simulator.reference.blocks import Sequence
from tests.simulator.reference.lessons import Orca, Static
from tests.simulator.reference.loop import Loop, outcome
from tests.simulator.reference.sglang import Sglang
from tests.simulator.reference.vllm import Receiving, Swapping, Vllm


def simulate(settings, requests, times, policy=Vllm, front_s=0.0):
    """One engine; what it gives `loop.outcome` names."""
    loop = Loop([policy(settings)], requests, times, front_s=front_s)
    loop.run()
    return outcome([loop], len(requests))


def together(settings, requests, times, replicas, routing, policy=Vllm, front_s=0.0):
    """Replicas that step together."""
    engines = [policy(settings) for _ in range(replicas)]
    router = Router(routing, requests, settings)
    clients = None if requests.clients is None else requests.clients * replicas
    loop = Loop(
        engines,
        replace(requests, clients=clients),
        times,
        None,
        lambda one: router(one, engines, [0] * replicas),
        front_s,
    )
    loop.run()
    return outcome([loop], len(requests))


def apart(settings, requests, times, replicas, routing, policy=Vllm, front_s=0.0):
    """Replicas behind a router: clients keep to theirs, a session to the replica of its first turn."""
    firsts = [i for i in range(len(requests)) if requests.after is None or requests.after[i] < 0]
    if requests.clients is not None or routing == "round-robin":
        loops = [Loop([policy(settings)], requests, times, firsts[k::replicas], None, front_s) for k in range(replicas)]
    else:
        loops = [Loop([policy(settings)], requests, times, [], None, front_s) for _ in range(replicas)]
        routed(loops, requests, routing, settings, [(requests.arrival_s[i], i) for i in firsts])
    for loop in loops:
        loop.run()
    return outcome(loops, len(requests))


def split(replica, requests, policy=Vllm, receiving=Receiving):
    """Prompts in some replicas, answers in the others, a link between; who waits for an answer waits for all of it."""
    settings, times, front_s = replica.settings, replica.times, replica.front_s
    replicas, prompts, routing = replica.replicas, replica.prefill_replicas, replica.routing
    count = len(requests)
    alone = replace(requests, output=[1] * count, clients=None, after=None)
    sent = replace(requests, chains=None, clients=None, after=None)
    plain = replace(settings, prefix_caching=False)
    first = [Loop([policy(settings)], alone, times, []) for _ in range(prompts)]
    second = [Loop([receiving(plain)], sent, times, []) for _ in range(replicas - prompts)]
    after = [-1] * count if requests.after is None else requests.after
    firsts = [i for i in range(count) if after[i] < 0]
    unsent = [] if requests.clients is None else firsts[requests.clients * replicas :]
    ahead = firsts if requests.clients is None else firsts[: requests.clients * replicas]
    events = [((requests.arrival_s[i] if requests.clients is None else 0.0) + front_s, 0, i) for i in ahead]
    given, last = {}, {}

    def computed(one, end):
        given[one] = end
        if requests.output[one] == 1:
            answered(one, end)
        else:
            events.append((end + replica.transfer_s * requests.prompt[one], 1, one))

    def answered(one, end):
        last[one] = end
        followers = [i for i in range(count) if after[i] == one]
        events.extend((end + requests.pause_s[one] + front_s, 0, one) for one in followers)
        if unsent and not followers:
            events.append((end + requests.think_s + front_s, 0, unsent.pop(0)))

    for loop in first:
        loop.tell = computed
    for loop in second:
        loop.tell, loop.given = answered, given
    routers = Router(routing, requests, settings), Router(routing, sent, plain)
    while True:
        at, pool, one = min(events, default=(math.inf, 0, 0))
        soonest = min([*first, *second], key=lambda loop: loop.next_s())
        if soonest.next_s() < at:
            soonest.turn()
        elif events:
            events.remove((at, pool, one))
            loops = (first, second)[pool]
            offered(loops, routers[pool], one, at)
        else:
            break
    found = outcome([*first, *second], count)
    return {**found, "first": [given[i] for i in range(count)], "last": [last[i] for i in range(count)]}


def routed(loops, requests, routing, settings, arrivals):
    """Each request to a replica when it arrives."""
    router = Router(routing, requests, settings)
    for at, request in arrivals:
        for loop in loops:
            loop.run(at + loop.front_s)
        offered(loops, router, request, at)


def offered(loops, router, request, at):
    engines = [loop.engines[0] for loop in loops]
    unseen = [sum(time <= at + loop.front_s for time, _ in loop.to_come) for loop in loops]
    loops[router(request, engines, unseen)].offer(request, at)


class Router:
    """Round robin, the least loaded, or where a request's first shared tokens went before."""

    def __init__(self, routing, requests, settings):
        self.routing, self.turn, self.homes = routing, -1, {}
        self.size, self.caching = settings.block_size, settings.prefix_caching
        self.sequences = [Sequence(i, requests) for i in range(len(requests))]

    def __call__(self, request, engines, on_the_way):
        if self.routing == "round-robin":
            self.turn = (self.turn + 1) % len(engines)
            return self.turn
        pairs = zip(engines, on_the_way, strict=True)
        loads = [4 * (len(one.waiting) + way) + one.taken for one, way in pairs]
        least = loads.index(min(loads))
        shared = self.shared(request) if self.routing == "prefix-aware" and self.caching else None
        if shared is None:
            return least
        if shared not in self.homes or loads[self.homes[shared]] > loads[least] + 64:
            self.homes[shared] = least
        return self.homes[shared]

    def shared(self, request):
        """The name of its first block, where somebody else has it too."""
        names = [one.names(1, self.size)[0] for one in self.sequences]
        return names[request] if names.count(names[request]) > 1 else None


def everything(replica, requests):
    """The same question as `answers.simulate.runs.run`: the policy, replicas and pools of a `Simulated`."""
    settings, times = replica.settings, replica.times
    policy = policy_of(replica)
    if replica.prefill_replicas:
        return split(replica, requests, policy)
    if replica.replicas == 1:
        return simulate(settings, requests, times, policy, replica.front_s)
    several = together if replica.lockstep else apart
    return several(settings, requests, times, replica.replicas, replica.routing, policy, replica.front_s)


def policy_of(replica):
    if replica.scheduler == "static":
        return Static
    if replica.reservation != "none":
        return lambda settings: Orca(settings, replica.reservation, replica.longest)
    if replica.settings.preemption == "swap":
        return Swapping
    return Sglang if replica.prompts_first else Vllm
