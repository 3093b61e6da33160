"""A closed loop whose prompts go first: decode halts while any waits.

Answers end only while decode runs, and each comes back as a prompt a front end's time F later, when decode has run for
F / step further steps, two of them planned already. Prompts of `rho` times the decode between them then keep the engine
while no answer ends. Where rho > 1 the loop falls into bursts: all that ended in F come while decode halts, and are
worked through before it goes on; then it runs for F before the next prompt comes.

    rho    = a · Δ / step                              a = C · (N - 1) / (O - 1 + A): answers that end with a step
    A      = (F / step + lag) / (1 + min(rho, 1))      lag: the rest of the step under way, and those planned
    M      = ends / (1 + min(rho, 1)) + along · beside along = (1 + 1 / max(rho, 1)) / 2
    beside = a + busy² · max(1, ends · min(rho, 1)³ / 2.5)
                                                       ends = a · (F / step + lag), busy = rho / (1 + rho)
    wait   = lag · step + busy · (1 + beside) · Δ / 2
             + max((ends · Δ - F - lag · step) / 2 - (1 - along) · beside · Δ, 0)
    own    = (1 + beside) · Δ

Answers that lengths draw apart by less than 1.35 of the steps that decode runs for meanwhile are gathered by that again
and again: all clients march as one (`gathered`), however many waves there are.

A scheduler that looks for requests every R steps has (R - 1) / 2 more in A, without a prompt in them. All that came
between two looks then run at once: half of a · (R - 1) before one's own; half of those that a step has room for go with
it, and are in M too.

Unit: s
Source: arithmetic on SGLang's rule (get_next_batch_to_run in sglang/srt/managers/scheduler.py); `beside` is a judgement
on the event simulation of the same steps
"""

from dataclasses import replace

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.timing.closed_loop import FEWEST, Load, Loop, Times, Turn, shared, together, with_first

ROUNDS = 4
# Steps by which answers are drawn apart, over those that decode runs for meanwhile: gathered below, free above.
# Judgements on the simulation, where one turns into the other between 1.34 and 1.35.
TIGHT, LOOSE = 1.3, 1.4
PER_BATCH = 2.5  # of a burst's prompts one in so many shares a step with one's own


def prompts_first(turn: Turn, times: Times) -> Loop:
    """A scheduler that runs all prompts that wait before it decodes on."""
    step_s, absent, lag = times.step_s, turn.ahead + 0.5, turn.several * (turn.ahead + 0.5)
    load = Load(times.prompt_s, turn.sharing, turn.sharing - 1)
    for _ in range(ROUNDS):
        spaced = turn.others / (turn.further + absent) * load.prompt_s / step_s
        turn = replace(turn, crowd=gathered(turn, times.front_s / step_s + lag + turn.looks - 1, spaced))
        rho = turn.arriving_beside(absent) * load.prompt_s / step_s
        away = times.front_s / step_s + lag
        absent = away / (1 + least(rho, 1)) + turn.several * (turn.looks - 1) / 2
        arriving = turn.arriving_beside(absent)
        load = batch(turn, times, arriving, least(arriving * away, turn.others), rho)
        step_s = times.step_of(turn, turn.decoding_beside(absent))
    missed = passing(turn, times.front_s / step_s + lag, arriving, load, step_s)
    prompts = (turn.others - missed) * (1 - turn.first_wave / 2)
    return with_first(
        turn,
        times,
        Loop(
            tpot_s=step_s / times.gain + prompts / turn.further * load.prompt_s,
            ttft_s=0.0,
            step_s=step_s,
            prompts=prompts,
            missed=missed,
            absent=absent,
            arriving=arriving,
            decoding=turn.decoding_beside(absent),
            passing_s=load.prompt_s,
            wait_s=turn.several * waiting(turn, times.front_s + lag * step_s, arriving, load, step_s),
            own_s=(1 + load.beside) * load.prompt_s,
            first_s=0.0,
            load=load,
        ),
    )


def passing(turn: Turn, away: Quantity, arriving: Quantity, load: Load, step_s: Quantity) -> Quantity:
    """M: others' prompts that pass while a request does not decode.

    All that came between two looks run at once: half of them before one's own, and others with it if a step has room.
    """
    rho, seen = arriving * load.prompt_s / step_s, arriving * (turn.looks - 1)
    before = least(arriving * away, turn.others) / (1 + least(rho, 1)) + seen / 2
    return least(before + least(seen, turn.room - 1) / 2 + along(rho) * load.beside, turn.others)


def gathered(turn: Turn, away: Quantity, rho: Quantity) -> Quantity:
    """C where all who come back while prompts halt decode go on together.

    Answers that are drawn apart by less than decode runs meanwhile are gathered again: all clients march as one, if
    prompts halt decode for long enough (`rho`, of clients that come evenly).
    """
    away = greatest(away, FEWEST)  # of one client alone nothing is away
    long = greatest(least(rho - 1, 1), 0)
    share = long * greatest(least((LOOSE - turn.drawn / away) / (LOOSE - TIGHT), 1), 0)
    return turn.crowd + share * greatest((turn.further + away) / away - turn.crowd, 0)


def waiting(turn: Turn, away_s: Quantity, arriving: Quantity, load: Load, step_s: Quantity) -> Quantity:
    """Seconds until the step of a new prompt: the planned ones, half of a burst, and half of a batch under way."""
    ends = least(arriving * away_s / step_s, turn.others)
    burst_s = greatest(ends * load.prompt_s - away_s, 0) / 2
    rho = arriving * load.prompt_s / step_s
    under_way_s = rho / (1 + rho) * (1 + load.beside) * load.prompt_s / 2
    before_s = greatest(burst_s - (1 - along(rho)) * load.beside * load.prompt_s, 0)
    return (turn.ahead + 0.5) * step_s + before_s + under_way_s


def along(rho: Quantity) -> Quantity:
    """Of those that share its step, the part that is not among the half of a burst before it: all where none is."""
    return (1 + 1 / greatest(rho, 1)) / 2


def batch(turn: Turn, times: Times, arriving: Quantity, ends: Quantity, rho: Quantity) -> Load:
    """Prompts that run together, and what each then adds."""
    busy = rho / (1 + rho)
    burst = ends * least(rho, 1) ** 3 / PER_BATCH
    beside = least(arriving + busy**2 * greatest(burst, 1), least(turn.room - 1, turn.others))
    sharing = least(together(beside + arriving * (turn.looks - 1)), turn.room)
    return Load(shared(turn, times, 1 / sharing), sharing, beside)
