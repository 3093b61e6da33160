"""A closed loop of clients whose requests differ in length, counted in steps: who decodes, and what a prompt waits for.

N clients each send their next request when the last is answered; O tokens come out on average. Every step that decodes
gives each request one token, however long it takes: so others' prompts are counted in steps, not in seconds. A request
decodes for O - 1 steps; A steps pass from its last token to the first of its client's next one.

    n    = (1 + (N - 1) · (O - 1) / (O - 1 + A)) · (1 - s · d / 6)        who decodes, as a request sees it
    TPOT = step(n) + P / (O - 1) · Δ        P = (N - 1 - M) · (1 - s / 2)
    TTFT = front end + (1 - s) · (wait + own) + s · (N + 1) / 2 · pf

Δ is what one prompt adds to the steps that carry it, M those of the others' that pass while a request does not decode.
s is the first wave, which comes at once: its prompts (pf each, as many together as a step has room for) find few who
decode yet. The last wave has none behind it: of the N who are left ever fewer decode, for its requests a sixth fewer on
average where they end over a whole turn, and less where over a part d of one. What A, M, wait and own are the scheduler
says: its steps carry prompts and decode together (`carried_prompts`), or prompts halt decode (`prompts_first`).

Unit: s
Source: arithmetic on the schedulers' rules (docs/explanation/simulate.md), Reiser & Lavenberg 1980 for what one of N
clients meets: the other N - 1; an event simulation of the same steps agrees within 2 % in TPOT and 3 % in throughput
(benchmarks/accuracy_closed_loop.py)
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, expm1, inf
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, is_array, least

LEAST_IDLE = 0.1  # a queue of prompts is taken to end, however busy the engine
FEWEST = 1e-9


@dataclass(frozen=True)
class Turn:
    """What a scheduler makes of a client's turn: numbers, or arrays of them."""

    clients: Quantity
    output_len: Quantity
    first_wave: Quantity = 0.0  # share of the requests that come at once
    ahead: Quantity = 1  # steps that are planned before the results of the last are known
    pieces: Quantity = 1  # steps that one prompt takes at least
    load: Quantity = 0.0  # tokens of a prompt over those of a step
    crowd: Quantity = 1.0  # C
    apart: Quantity = 1.0  # d
    drawn: Quantity = inf  # steps by which their answers draw requests apart that begin together, at most
    looks: Quantity = 1  # decode steps from one look for requests to the next

    @cached_property
    def others(self) -> Quantity:
        return self.clients - 1

    @cached_property
    def further(self) -> Quantity:
        """Tokens after the first, each a step of its own."""
        return greatest(self.output_len - 1, 1)

    @cached_property
    def away(self) -> Quantity:
        """A without the front end: the step under way, those planned ahead, its own, and full ones before it."""
        return 1 + self.ahead + self.pieces + self.queued

    @cached_property
    def queued(self) -> Quantity:
        """Steps of A that others' prompts fill.

        A queue of prompts of `load` steps each, those under way apart; where prompts fill more steps than decode has,
        all that are left.
        """
        least_away = 1 + self.ahead + self.pieces
        busy = self.crowd * self.others * self.load / (self.further + least_away)
        queue = self.load * least(busy**2 / (2 * greatest(1 - busy, LEAST_IDLE)), self.others / 2)
        return greatest(queue, self.others * self.load - self.further - least_away)

    @cached_property
    def decoding(self) -> Quantity:
        """Sequences of a step where the front end takes no time."""
        return self.decoding_beside(self.away)

    def decoding_beside(self, absent: Quantity) -> Quantity:
        """n, where each request is absent for so many steps: itself, and the others as often as they decode."""
        all_day = self.others * self.further / (self.further + absent)
        return 1 + all_day * (1 - self.first_wave * self.apart / 6)

    def arriving_beside(self, absent: Quantity) -> Quantity:
        """Others' prompts a step, when one's own comes."""
        return self.crowd * self.others / (self.further + absent)

    @cached_property
    def sharing(self) -> Quantity:
        """Pieces of prompts in a step that has any, as many as its budget holds: where arrivals are independent."""
        return least(together(self.arriving_beside(self.away) * self.pieces), self.room)

    @cached_property
    def room(self) -> Quantity:
        """Pieces of prompts that a step holds, at least one."""
        return greatest(self.pieces / greatest(self.load, FEWEST), 1)

    @cached_property
    def several(self) -> Quantity:
        """0 where nobody else is there, 1 where somebody is."""
        return least(self.others, 1)


class Times(NamedTuple):
    """Seconds of what the loop is made of: numbers, or arrays."""

    front_s: Quantity  # outside the engine
    step_s: Quantity  # of those who decode where the front end takes no time
    prompt_s: Quantity  # that one prompt adds to the steps that carry it, as many together as come by chance
    alone_s: Quantity  # of a prompt with nobody else there
    packed_s: Quantity  # of one prompt among as many as a step holds
    each_s: Quantity = 0.0  # of `step_s`, what one sequence less takes off
    gain: Quantity = 1.0  # how many times faster than steps tokens come, where drafts are checked

    def step_of(self, turn: Turn, decoding: Quantity) -> Quantity:
        """A step of so many sequences that decode."""
        return self.step_s - (turn.decoding - decoding) * self.each_s


class Load(NamedTuple):
    """What steps carry."""

    prompt_s: Quantity  # that a prompt adds
    sharing: Quantity  # prompts, or pieces of them, of a step that has any
    beside: Quantity  # others' that share a prompt's own step


class Loop(NamedTuple):
    """Seconds and counts of a request in the loop."""

    tpot_s: Quantity
    ttft_s: Quantity
    step_s: Quantity  # of those who decode
    prompts: Quantity  # P: others' that pass while it decodes
    missed: Quantity  # M: of the others', those that pass while it does not
    absent: Quantity  # A
    arriving: Quantity  # a: others' prompts a step
    decoding: Quantity  # n
    passing_s: Quantity  # that each of the prompts adds to its steps
    wait_s: Quantity  # from its arrival to the step that begins its prompt
    own_s: Quantity  # that step, and those of further pieces
    first_s: Quantity  # the same of the first wave, which waits for itself
    load: Load


def together(arriving: Quantity) -> Quantity:
    """Prompts of a step that has any, where so many come a step on average, each for itself.

    Unit: prompts

    >>> round(together(1.0), 3), round(together(0.0), 3)
    (1.582, 1.0)
    """
    arriving = greatest(arriving, FEWEST)
    if is_array(arriving):
        import numpy as np

        found: Quantity = arriving / -np.expm1(-arriving)
        return found
    return arriving / -expm1(-arriving)


def width_after(turn: Turn, spread: float, waves: float) -> Quantity:
    """Steps in which the prompts of a wave come, so many waves after the first.

    The first come over as many steps as their prompts fill. A wave later answers that are up to `spread` longer or
    shorter have drawn them apart by twice that, and so on with the root of the waves.

    Unit: steps
    >>> width_after(Turn(clients=10, output_len=100), 0.1, 4)
    40.0
    """
    found: Quantity = ((turn.clients * turn.load) ** 2 + waves * (2 * spread * turn.output_len) ** 2) ** 0.5
    return found


def crowding(turn: Turn, spread: float, waves: float) -> Quantity:
    """C: the mean over the waves of how much narrower than a turn the time is in which a wave's prompts come.

    Later waves fill a turn, and prompts come evenly.

    Unit: none
    >>> turn = Turn(clients=64, output_len=128)
    >>> round(crowding(turn, 0.1, 2), 2), round(crowding(turn, 0.5, 1000), 2)
    (5.08, 1.0)
    """
    later = max(0, round(waves) - 1)
    if not later:
        return 1.0
    whole = turn.further + turn.away
    bunched = min(later, ceil(1 / (2 * spread) ** 2)) if spread else later
    total: Quantity = float(later - bunched)
    for wave in range(1, bunched + 1):
        total = total + greatest(whole / greatest(width_after(turn, spread, wave), 1), 1)
    return least(total / later, whole / turn.away)


def shared(turn: Turn, times: Times, apart: Quantity) -> Quantity:
    """Seconds that a prompt adds where each has `apart` of a step to itself.

    What a step pays once is shared: a prompt's part is linear in 1 / k, from what was asked for to a full step.
    """
    full_s = least(times.packed_s, times.prompt_s)
    part = (apart - 1 / turn.room + FEWEST) / (1 / turn.sharing - 1 / turn.room + FEWEST)
    return full_s + (times.prompt_s - full_s) * least(part, 1)


def with_first(turn: Turn, times: Times, found: Loop) -> Loop:
    """With the time to first token: of the first wave, and of the others. Who is alone has its prompt alone."""
    alone_s = (1 - turn.several) * times.alone_s
    own_s = turn.several * found.own_s + alone_s
    first_s = turn.several * (turn.clients + 1) / 2 * times.packed_s + alone_s
    later_s = found.wait_s + own_s
    # Where both are the same, to the last digit: who is alone has one figure.
    ttft_s = times.front_s + (later_s + turn.first_wave * (first_s - later_s))
    return found._replace(own_s=own_s, first_s=first_s, ttft_s=ttft_s)
