"""How many drafted tokens are accepted, from whatever is known: a rate, measured positions, files, stated lengths."""

import warnings
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kvcalc.errors import KvcalcError
from kvcalc.formulas import speculative as formulas
from kvcalc.specs.base import Frozen

LARGEST_GAMMA = 64
GOLDEN = 0.6180339887498949  # (√5 - 1) / 2
LOWEST_DECAY = 0.5  # a judgement: where the search for a fit ends
FINENESS = 2**20  # steps of a rate
ROUNDS = 32  # of golden-section search: an interval of 1 shrinks below 1e-6


class Acceptance(Frozen):
    """Probability that a draft token is accepted, given that all before it were.

    `of_level` says that it holds for a whole level of a tree, however many candidates that has; else of one candidate.
    """

    rate: float
    decay: float = 1.0
    positions: tuple[float, ...] = ()  # measured one by one; then `rate` is their mean
    of_level: bool = False
    said: str  # where it comes from

    @property
    def longest(self) -> int:
        """Draft length up to which it says anything."""
        return len(self.positions) or LARGEST_GAMMA

    def at(self, position: int) -> float:
        """Of the position counted from 0."""
        return self.positions[position] if self.positions else self.rate * self.decay**position

    def tokens_per_pass(self, widths: Sequence[int]) -> float:
        """Expected tokens of one target pass over a draft with so many candidates in each level."""
        if self.of_level or all(width == 1 for width in widths):
            if not self.positions:
                return formulas.tokens_per_pass(self.rate, len(widths), self.decay)
            return formulas.tokens_per_pass_measured(self.positions[: len(widths)])
        levels = [formulas.branch_acceptance(self.at(i), width) for i, width in enumerate(widths)]
        return formulas.tokens_per_pass_measured(levels)


def from_rates(rates: Sequence[float], decay: float = 1.0) -> Acceptance:
    """One rate holds at every position; several are the positions' own.

    >>> round(from_rates([0.8]).tokens_per_pass([1] * 4), 4), from_rates([0.8, 0.5]).rate
    (3.3616, 0.65)
    """
    if len(rates) == 1:
        return Acceptance(rate=rates[0], decay=decay, said="given")
    if decay != 1:
        raise KvcalcError("--decay says how one rate falls, but several are given", hint="give one --acceptance")
    return Acceptance(rate=sum(rates) / len(rates), positions=tuple(rates), said="measured position by position")


def from_lengths(lengths: Mapping[int, float], decay: float | None = None) -> Acceptance:
    """From accepted lengths, the bonus token included, each stated for its draft length.

    One length gives one rate; from two on, the rate of the first position and its decay are fitted.

    >>> from_lengths({4: 3.3616}).rate.__round__(4)
    0.8
    """
    for gamma, length in lengths.items():
        if not 1 <= length <= gamma + 1:
            raise KvcalcError(
                f"an accepted length of {length:g} is not possible with {gamma} draft tokens",
                hint=f"it lies between 1 and {gamma + 1}: accepted tokens and one more",
            )
    if len(lengths) == 1 or decay is not None:
        held = 1.0 if decay is None else decay
        return Acceptance(rate=_best_rate(lengths, held), decay=held, of_level=True, said="from the stated length")
    rate, fitted = fit(lengths)
    return Acceptance(rate=rate, decay=fitted, of_level=True, said=f"fitted to {len(lengths)} stated lengths")


def fit(lengths: Mapping[int, float]) -> tuple[float, float]:
    """The rate of the first position and the decay that come nearest to the lengths, in relative terms."""
    decay = _golden(lambda r: _misfit(lengths, _best_rate(lengths, r), r), LOWEST_DECAY, 1.0)
    return _best_rate(lengths, decay), decay


def _best_rate(lengths: Mapping[int, float], decay: float) -> float:
    return _golden(lambda rate: _misfit(lengths, rate, decay), 0.0, 1.0)


def _misfit(lengths: Mapping[int, float], rate: float, decay: float) -> float:
    return sum((formulas.tokens_per_pass(rate, n, decay) / length - 1) ** 2 for n, length in lengths.items())


def _golden(of: Any, low: float, high: float) -> float:
    """Where a function with one valley is lowest."""
    left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
    at_left, at_right = of(left), of(right)
    for _ in range(ROUNDS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - GOLDEN * (high - low)
            at_left = of(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + GOLDEN * (high - low)
            at_right = of(right)
    return (low + high) / 2


def from_files(target: str, draft: str) -> Acceptance:
    """1 minus the total-variation distance of the two files' distributions, averaged over positions.

    Each file holds rows of probabilities over the vocabulary: .npy, .json (lists) or .csv.
    """
    from kvcalc.formulas.sampling import acceptance_rate

    p, q = _rows(target), _rows(draft)
    if p.shape != q.shape:
        raise KvcalcError(
            f"{target} holds {_shape(p)} probabilities and {draft} {_shape(q)}",
            hint="give target and draft distributions of the same positions over the same vocabulary",
        )
    try:
        rates = acceptance_rate(p, q)
    except ValueError as error:
        raise KvcalcError(f"{target}, {draft}: {error}", hint="give probabilities, not logits") from error
    return Acceptance(rate=float(rates.mean()), said=f"1 − TV, the mean of {len(p)} positions")


def _rows(name: str) -> Any:
    """A two-dimensional array; leading dimensions are positions."""
    import numpy as np

    path, suffix = Path(name).expanduser(), Path(name).suffix
    try:
        if suffix == ".npy":
            found = np.load(path, allow_pickle=False)
        elif suffix == ".json":
            import json

            found = np.asarray(json.loads(path.read_text(encoding="utf-8")), dtype=np.float64)
        elif suffix == ".csv":
            with warnings.catch_warnings(action="ignore"):  # NumPy warns of an empty file, which is an error here
                found = np.loadtxt(path, delimiter=",", ndmin=2)
        else:
            raise KvcalcError(f"{name}: not a .npy, .json or .csv", hint="save rows of probabilities in one of these")
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise KvcalcError(
            f"cannot read probabilities from {name}: {error}", hint="rows of numbers, one a position"
        ) from error
    if found.size == 0 or found.dtype.kind not in "fiu":
        raise KvcalcError(f"{name} holds no numbers", hint="rows of probabilities, one a position")
    return found.reshape(-1, found.shape[-1]) if found.ndim != 1 else found.reshape(1, -1)


def _shape(array: Any) -> str:
    return " × ".join(str(size) for size in array.shape)


def break_even(speedup_of: Any) -> float | None:
    """The rate from which speculation pays, for a speed-up that grows with it; None: not even at 1."""
    first = bisect_left(range(FINENESS + 1), True, key=lambda number: speedup_of(number / FINENESS) > 1)
    return first / FINENESS if first <= FINENESS else None
