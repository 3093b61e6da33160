"""A closed loop of clients whose requests differ in length, counted in steps: who decodes, and what a prompt waits for.

N clients each send their next request when the last is answered; O tokens come out on average. Every step gives each
request that decodes one token, however long the step takes: so others' prompts are counted in steps, not in seconds. A
request decodes for O - 1 steps; A steps pass from its last token to the first of its client's next one. Of the N - 1
others' prompts, C times as many as on average come in these steps where clients are still bunched from their start.

    TPOT = step(n) + P / (O - 1) · Δ     P = (N - 1) · (1 - s / 2) · (1 - C · A / (O - 1 + A))
    n    = 1 + (N - 1) · (O - 1) / (O - 1 + A)
    A    = 1 + ahead + pieces + queue + front end / TPOT
    a    = C · (N - 1) / (O - 1 + A)     others' prompts a step
    k    = a / (1 - e^-a)                prompts that share a step that has any: arrivals are independent
    TTFT = front end + (1 - s) · (wait + own) + s · (N + 1) / 2 · pf
    wait = what is left of the step under way, `ahead` steps that were planned before it ended, and full ones
    own  = pieces · step + min(1 + a, room) · Δ

Δ is what one of k prompts adds to a step; s the first wave, which comes at once: its prompts (pf each, as many together
as a step has room for) find few who decode yet. A scheduler that runs prompts in steps of their own
halts decode meanwhile: there prompts queue for each other in seconds (`prompts_first`).

Unit: s
Source: arithmetic on the schedulers' rules (docs/explanation/simulate.md), Reiser & Lavenberg 1980 for what one of N
clients meets: the other N - 1; an event simulation of the same steps agrees within 2 % in TPOT and 3 % in throughput
(benchmarks/accuracy_closed_loop.py)
"""

from dataclasses import dataclass
from functools import cached_property
from math import ceil, expm1
from typing import NamedTuple

from kvcalc.counting.arrays import Quantity, greatest, is_array, least

LEAST_IDLE = 0.1  # a queue of prompts is taken to end, however busy the engine
ROUNDS = 3  # of the one equation that has its answer on both sides; each leaves under a tenth of the error before
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
        """Sequences of a step, as a request that decodes sees it: itself, and the others as often as they do."""
        return 1 + self.others * self.further / (self.further + self.away)

    @cached_property
    def arriving(self) -> Quantity:
        """Others' prompts a step, when one's own comes."""
        return self.crowd * self.others / (self.further + self.away)

    @cached_property
    def sharing(self) -> Quantity:
        """k: pieces of prompts in a step that has any, as many as its budget holds."""
        return least(together(self.arriving * self.pieces), self.room)

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
    step_s: Quantity  # of those who decode
    token_s: Quantity  # the same for each token that drafts make of it; without drafts the step
    prompt_s: Quantity  # that one prompt adds to the step that carries it
    alone_s: Quantity  # of a prompt with nobody else there
    packed_s: Quantity  # of one prompt among as many as a step holds


class Load(NamedTuple):
    """What steps carry."""

    prompt_s: Quantity  # that a prompt adds
    sharing: Quantity  # prompts of a step that has any


class Loop(NamedTuple):
    """Seconds and counts of a request in the loop."""

    tpot_s: Quantity
    ttft_s: Quantity
    prompts: Quantity  # P: others' that pass while it decodes
    missed: Quantity  # of the others', those that pass while it does not
    absent: Quantity  # A
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


def crowding(turn: Turn, spread: float, waves: float) -> Quantity:
    """C: the mean over the waves of how much narrower than a turn the time is in which a wave's prompts come.

    All begin at once, over as many steps as their prompts fill. A wave later answers that are up to `spread` longer or
    shorter have drawn them apart by twice that, and so on with the root of the waves: until they fill a turn, and
    prompts come evenly.

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
        width = ((turn.clients * turn.load) ** 2 + wave * (2 * spread * turn.output_len) ** 2) ** 0.5
        total = total + greatest(whole / greatest(width, 1), 1)
    return least(total / later, whole / turn.away)


def carried(turn: Turn, times: Times) -> Loop:
    """A scheduler whose steps carry prompts and decode together."""
    tpot_s, absent, load = times.token_s, turn.away, Load(times.prompt_s, turn.sharing)
    missed = prompts = passing_s = turn.others * 0.0
    early = turn.first_wave / (2 - turn.first_wave)  # half of the first wave's prompts pass, in full steps
    for _ in range(ROUNDS):
        absent, load = turn.away + times.front_s / tpot_s, shared_steps(turn, times, load)
        missed = turn.others * least(turn.crowd * absent / (turn.further + absent), 1)
        prompts = (turn.others - missed) * (1 - turn.first_wave / 2)
        passing_s = (1 - early) * load.prompt_s + early * least(times.packed_s, load.prompt_s)
        tpot_s = times.token_s + prompts / turn.further * passing_s
    wait_s = turn.several * under_way(turn, times, load)
    own_s = turn.pieces * times.step_s + least(1 + turn.arriving * turn.pieces, turn.room) * load.prompt_s
    return _with_first(turn, times, Loop(tpot_s, 0.0, prompts, missed, absent, passing_s, wait_s, own_s, 0.0, load))


def shared_steps(turn: Turn, times: Times, load: Load) -> Load:
    """How many prompts share a step, and what each then adds.

    A request comes a front end's time after the answer before it. So a long step, which carries prompts, takes in those
    of more steps than a short one: of as many as ended in that time, and of the one that ended as it began.
    """
    longer, carrying, mean_s = lengths(turn, times, load)
    steps = least(1 + times.front_s / mean_s, (times.step_s + longer) / mean_s)
    in_long = least(carrying * steps, 1)
    coming = turn.arriving * turn.pieces
    apart = in_long / least(together(coming * steps), turn.room)
    apart = apart + (1 - in_long) / least(together(coming * times.step_s / mean_s), turn.room)
    # What a step pays once is shared: a prompt's part is linear in 1 / k, from what was asked for to a full step.
    full_s = least(times.packed_s, times.prompt_s)
    part = (apart - 1 / turn.room + FEWEST) / (1 / turn.sharing - 1 / turn.room + FEWEST)
    return Load(full_s + (times.prompt_s - full_s) * least(part, 1), 1 / apart)


def lengths(turn: Turn, times: Times, load: Load) -> tuple[Quantity, Quantity, Quantity]:
    """By how much prompts lengthen a step that has any, the share of steps that do, and the mean step."""
    longer = load.prompt_s * load.sharing / turn.pieces
    carrying = least(turn.arriving * turn.pieces / load.sharing, 1)
    return longer, carrying, times.step_s + carrying * longer


def under_way(turn: Turn, times: Times, load: Load) -> Quantity:
    """Seconds until the step that takes a new prompt: the rest of the present one, those planned, and full ones.

    Who arrives falls into long steps more often.
    """
    longer, carrying, mean_s = lengths(turn, times, load)
    square = (1 - carrying) * times.step_s**2 + carrying * (times.step_s + longer) ** 2
    return square / (2 * mean_s) + turn.ahead * mean_s + turn.queued * (times.step_s + longer)


def prompts_first(turn: Turn, times: Times) -> Loop:
    """A scheduler that runs all prompts that wait before it decodes on: they queue for each other."""
    joining = turn.several * (turn.ahead + 0.5)
    arriving = turn.others / (turn.further + turn.ahead + 0.5)
    own_s = least(1 + arriving, turn.room) * times.prompt_s
    tpot_s, wait_s = times.token_s, joining * times.step_s
    missed = prompts = turn.others * 0.0
    for _ in range(3 * ROUNDS):
        decoding_s = times.front_s + wait_s + own_s + turn.further * tpot_s - times.prompt_s
        queue_s = prompt_wait(turn.clients, times.prompt_s, decoding_s)
        missed = turn.others * times.front_s / (times.prompt_s + decoding_s) + queue_s / times.prompt_s
        missed = missed + arriving * (joining + (turn.looks - 1) / 2) + least(arriving, turn.room - 1)
        missed = least(missed, turn.others)
        prompts = (turn.others - missed) * (1 - turn.first_wave / 2)
        tpot_s = times.token_s + prompts / turn.further * times.prompt_s
        wait_s = queue_s + joining * times.step_s
    load = Load(times.prompt_s, turn.sharing)
    found = Loop(tpot_s, 0.0, prompts, missed, turn.away, times.prompt_s, wait_s, own_s, 0.0, load)
    return _with_first(turn, times, found)


def prompt_wait(clients: Quantity, prompt_s: Quantity, decoding_s: Quantity) -> Quantity:
    """Seconds that a prompt waits for others': a queue of N - 1 that each take pf and then decode for a while.

    >>> prompt_wait(clients=6, prompt_s=0.1, decoding_s=0.9)
    0.05
    """
    others = clients - 1
    busy = others * prompt_s / (prompt_s + decoding_s)
    return prompt_s * least(busy / (2 * greatest(1 - busy, LEAST_IDLE)), others / 2)


def _with_first(turn: Turn, times: Times, found: Loop) -> Loop:
    """With the time to first token: of the first wave, and of the others. Who is alone has its prompt alone."""
    alone_s = (1 - turn.several) * times.alone_s
    own_s = turn.several * found.own_s + alone_s
    first_s = turn.several * (turn.clients + 1) / 2 * times.packed_s + alone_s
    later_s = found.wait_s + own_s
    ttft_s = times.front_s + turn.first_wave * first_s + (1 - turn.first_wave) * later_s
    return found._replace(own_s=own_s, first_s=first_s, ttft_s=ttft_s)
