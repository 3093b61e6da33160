"""A closed loop whose steps carry prompts and decode together: what a request misses, waits for and shares.

    A    = outside + ahead + pieces + queue        outside: steps that pass while the front end has it
    M    = a · (A - 1) + beside                    a = C · (N - 1) / (O - 1 + A): others' prompts a step
    wait = what is left of the step under way, `ahead` steps that were planned before it ended, and full ones
    own  = pieces · step + (1 + beside) · Δ

A request comes a front end's time F after the answer before it, and answers come with every step's end. So `outside` is
how many steps end before F is over and that one too, F / mean + E[L²] / (2 · mean²) of steps of length L, at least one
and at most F / step + 1; and a long step, which carries prompts, takes in those of more steps than a short one.

Unit: s
Source: arithmetic on the schedulers' rules (docs/explanation/simulate.md); Cox 1962 (Renewal theory), section 4.5, for
the number of steps in a given time
"""

from kvcalc.counting.arrays import Quantity, greatest, least
from kvcalc.timing.closed_loop import Load, Loop, Times, Turn, shared, together, with_first

ROUNDS = 4  # of the equations that have their answer on both sides; each leaves under a third of the error before


def carried(turn: Turn, times: Times) -> Loop:
    """A scheduler whose steps carry prompts and decode together."""
    step_s, absent = times.step_s, turn.away
    load = Load(times.prompt_s, turn.sharing, turn.sharing - 1)
    early = turn.first_wave / (2 - turn.first_wave)  # half of the first wave's prompts pass, in full steps
    for _ in range(ROUNDS):
        arriving = turn.arriving_beside(absent)
        load = shared_steps(turn, times, step_s, arriving, load)
        absent = turn.away - 1 + outside(turn, times, step_s, arriving, load)
        step_s = times.step_of(turn, turn.decoding_beside(absent))
    arriving = turn.arriving_beside(absent)
    missed = least(arriving * (absent - 1) + load.beside / turn.pieces, turn.others)
    prompts = (turn.others - missed) * (1 - turn.first_wave / 2)
    passing_s = (1 - early) * load.prompt_s + early * least(times.packed_s, load.prompt_s)
    return with_first(
        turn,
        times,
        Loop(
            tpot_s=step_s / times.gain + prompts / turn.further * passing_s,
            ttft_s=0.0,
            step_s=step_s,
            prompts=prompts,
            missed=missed,
            absent=absent,
            arriving=arriving,
            decoding=turn.decoding_beside(absent),
            passing_s=passing_s,
            wait_s=turn.several * under_way(turn, step_s, arriving, load),
            own_s=turn.pieces * step_s + (1 + load.beside) * load.prompt_s,
            first_s=0.0,
            load=load,
        ),
    )


def outside(turn: Turn, times: Times, step_s: Quantity, arriving: Quantity, load: Load) -> Quantity:
    """Steps that pass, at least in part, while the front end has a request."""
    _, _, mean_s, square_s2 = lengths(turn, step_s, arriving, load)
    passed = times.front_s / mean_s + square_s2 / (2 * mean_s**2)
    return greatest(least(passed, times.front_s / step_s + 1), 1)


def shared_steps(turn: Turn, times: Times, step_s: Quantity, arriving: Quantity, load: Load) -> Load:
    """How many prompts share a step, and what each then adds.

    A long step takes in the prompts of as many steps as ended in that time, and of the one that ended as it began.
    """
    longer, carrying, mean_s, _ = lengths(turn, step_s, arriving, load)
    most, coming = 1 + times.front_s / mean_s, arriving * turn.pieces
    in_long = least(carrying * least(most, (step_s + longer) / mean_s), 1)
    # A prompt is more often in one of the longest; and most answers end where steps are short, many in its time.
    longest_s = step_s + longer * (1 + load.beside) / load.sharing
    longest = coming * least(most, 2 * longest_s / (mean_s + step_s))
    short = coming * step_s / mean_s
    apart = in_long / least(together(longest), turn.room) + (1 - in_long) / least(together(short), turn.room)
    beside = least(in_long * longest + (1 - in_long) * short, least(turn.room - 1, turn.others * turn.pieces))
    return Load(shared(turn, times, apart), 1 / apart, beside)


def lengths(
    turn: Turn, step_s: Quantity, arriving: Quantity, load: Load
) -> tuple[Quantity, Quantity, Quantity, Quantity]:
    """By how much prompts lengthen a step that has any, the share of steps that do, the mean step and mean square."""
    each_s = load.prompt_s / turn.pieces
    longer = each_s * load.sharing
    carrying = least(arriving * turn.pieces / load.sharing, 1)
    squared = step_s**2 + 2 * step_s * longer + each_s * longer * greatest(1 + load.beside, load.sharing)
    return longer, carrying, step_s + carrying * longer, (1 - carrying) * step_s**2 + carrying * squared


def under_way(turn: Turn, step_s: Quantity, arriving: Quantity, load: Load) -> Quantity:
    """Seconds until the step that takes a new prompt: the rest of the present one, those planned, and full ones.

    Who arrives falls into long steps more often.
    """
    longer, _, mean_s, square_s2 = lengths(turn, step_s, arriving, load)
    return square_s2 / (2 * mean_s) + turn.ahead * mean_s + turn.queued * (step_s + longer)
