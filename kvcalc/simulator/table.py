"""A dense table of step times from a timer that answers for any step: no model of the machine is made here.

The structure is known (module `step_times`); the timer's own values fill it. What is linear is solved for, what is not
(rows, sequences) is asked for at every whole number.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from kvcalc.counting.work import Step
from kvcalc.simulator.step_times import PromptTable, Reach, TabledTimes, pairs

Timer = Callable[[Step], Any]  # seconds of a step, for arrays too
LONG = 32_768  # cached tokens at which slopes are taken; beyond every window
SMALL = 1e-15  # seconds for a cached token that are none
CHUNKS = (64, 512)  # tokens of the chunks at which attention among prompts is taken


def tabled(timer: Timer, sequences: int, budget: int, windows: tuple[int, ...] = (), rows_each: int = 1) -> TabledTimes:
    """The table of a machine.

    Args:
        timer: seconds of a step, for steps of NumPy arrays too.
        sequences: that one step decodes at most.
        budget: tokens that one step computes at most.
        windows: tokens at which attention stops to grow, ascending.
        rows_each: rows that a decoding sequence brings.
    """
    base, slope, window_slopes = _decode(timer, sequences, windows, rows_each)
    most = sequences * rows_each
    return TabledTimes(
        base=base,
        slope=slope,
        windows=windows,
        window_slopes=window_slopes,
        beside=_beside(timer, most, budget, windows),
        alone=_alone(timer, sequences, budget, windows),
        rows_each=rows_each,
        beside_slope=_beside_slope(timer, sequences, rows_each),
    )


def _decode(timer: Timer, sequences: int, windows: tuple[int, ...], rows_each: int) -> tuple[Any, Any, Any]:
    """Base and slopes by batch, from the times between two windows each."""
    import numpy as np

    batch = np.arange(1.0, sequences + 1)
    knots = (0, *windows, (windows[-1] if windows else 0) + LONG)
    times = [_filled(timer(Step(decode=batch, context=float(c), rows_each=rows_each)), batch) for c in knots]
    between = [
        (high - low) / (batch * (b - a))
        for low, high, a, b in zip(times, times[1:], knots, knots[1:], strict=False)
    ]  # fmt: skip
    table = [(0.0, *one.tolist()) for one in (times[0], between[-1])]
    bends = tuple((0.0, *(a - b).tolist()) for a, b in pairwise(between))
    return table[0], table[1], bends


def _beside(timer: Timer, most: int, budget: int, windows: tuple[int, ...]) -> PromptTable:
    """What chunks add to `most` rows that decode, or fewer: a mixed step less the plain one.

    With G(rows) and H(rows of the head), p prompts of t tokens beside n rows add G(n + pt) - G(n) + H(n + p) - H(n) and
    a constant. Two prompts of a token against one of two tokens give H, beside every n; the rest then follows.
    """
    import numpy as np

    def added(decode: Any, tokens: Any, start: Any = 0.0, prompts: float = 1.0) -> Any:
        plain = timer(Step(decode=decode))
        return timer(Step(decode=decode, prompts=prompts, tokens=tokens, start=start)) - plain

    reaches = _reaches(lambda tokens, start: added(np.ones_like(start), tokens, start), windows)
    count, batch = np.arange(1.0, budget + most + 1), np.arange(1.0, most + 1)
    ones = np.ones_like(batch)
    of_tokens = _filled(added(np.ones_like(count), count), count) - _attention(reaches, count)
    of_batch = _filled(added(batch, ones), batch) - _attention(reaches, 1.0)
    further = 2 * _attention(reaches, 1.0) - _attention(reaches, 2.0)
    head = _filled(added(batch, ones, prompts=2.0) - added(batch, 2 * ones), batch) - further  # H(n + 2) - H(n + 1)
    first = float(head[0])  # H(2) - H(1): it comes with G(2) - G(1) only, so their shares are free
    once = float(of_batch[1] - (of_tokens[1] - of_tokens[0]) - head[0]) if most > 1 else 0.0
    return PromptTable(
        rows=(0.0, 0.0, *(of_tokens - first - once).tolist()),
        heads=(0.0, 0.0, first, *(first + np.cumsum(head)).tolist()),
        reaches=reaches,
        once_s=once,
    )


def _beside_slope(timer: Timer, sequences: int, rows_each: int) -> tuple[float, ...]:
    """What a cached token costs more in a step with chunks, by batch; empty where it costs the same."""
    import numpy as np

    batch = np.arange(1.0, sequences + 1)

    def added(context: float) -> Any:
        plain = Step(decode=batch, context=context, rows_each=rows_each)
        return _filled(timer(plain._replace(prompts=1.0, tokens=1.0)) - timer(plain), batch)

    more = (added(LONG) - added(0.0)) / (batch * LONG)
    return (0.0, *more.tolist()) if (more > SMALL).any() else ()


def _alone(timer: Timer, sequences: int, budget: int, windows: tuple[int, ...]) -> PromptTable:
    """Whole steps of nothing but prompts."""
    import numpy as np

    def whole(tokens: Any, start: Any = 0.0, prompts: Any = 1.0) -> Any:
        return timer(Step(prompts=prompts, tokens=tokens, start=start))

    reaches = _reaches(whole, windows)
    count = np.arange(1.0, budget + 1)
    rows = _filled(whole(count), count) - _attention(reaches, count)
    prompts = np.arange(1.0, min(sequences, budget) + 1)
    every = _filled(whole(np.ones_like(prompts), prompts=prompts), prompts) - prompts * _attention(reaches, 1.0)
    return PromptTable(
        rows=(0.0, *rows.tolist()), heads=(0.0, *(every - rows[: len(prompts)]).tolist()), reaches=reaches
    )


def _reaches(seconds: Callable[[Any, Any], Any], windows: tuple[int, ...]) -> tuple[Reach, ...]:
    """Attention of a chunk, solved from chunks of equal sizes at many starts."""
    import numpy as np

    spans = (*windows, float("inf"))
    marks = sorted({int(w * share) for w in windows for share in (0.5, 1, 1.5)} | {LONG, 2 * LONG, 4 * LONG})
    columns, wanted = [], []
    for tokens in CHUNKS:
        starts = np.array([0, *marks], dtype=float)
        times = _filled(seconds(np.full_like(starts, tokens), starts), starts)
        for start, gain in zip(marks, times[1:] - times[0], strict=True):
            of_pairs = [pairs(start, tokens, w) - pairs(0, tokens, w) for w in spans]
            columns.append([*of_pairs, *(min(start, w) for w in spans)])
            wanted.append(gain)
    matrix = np.array(columns)
    size = np.abs(matrix).max(axis=0)
    found = np.linalg.lstsq(matrix / size, np.array(wanted), rcond=1e-13)[0] / size
    return tuple(Reach(w, float(found[i]), float(found[len(spans) + i])) for i, w in enumerate(spans))


def _attention(reaches: tuple[Reach, ...], tokens: Any) -> Any:
    """Attention among so many first tokens of a prompt, of a number or an array."""
    import numpy as np

    total = 0.0
    for window, pair_s, _ in reaches:
        filling = np.minimum(tokens, window)
        total = total + pair_s * (filling**2 / 2 + (0.0 if window == float("inf") else window * (tokens - filling)))
    return total


def _filled(times: Any, like: Any) -> Any:
    """Times as an array as long as another, where a timer gave one number for all."""
    import numpy as np

    return np.broadcast_to(np.asarray(times, dtype=float), np.shape(like))
