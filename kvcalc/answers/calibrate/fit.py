"""One factor a term from measurements: the decode step, the prompt, and what the engine adds.

Least squares on logarithms, iteratively reweighted by Cauchy's weights, so that one run that was disturbed moves
little; of all subsets of the terms the one that explains most for its size is taken (Schwarz's criterion), so that a
term which the measurements cannot tell from another stays at 1.

Source: Holland and Welsch 1977, "Robust regression using iteratively reweighted least-squares"; Schwarz 1978,
"Estimating the dimension of a model"
"""

from collections.abc import Sequence
from itertools import combinations
from math import exp, log
from statistics import median
from typing import TYPE_CHECKING, NamedTuple

from kvcalc.answers.calibrate.observed import Observation
from kvcalc.errors import KvcalcError
from kvcalc.specs.base import replace
from kvcalc.specs.calibration import Calibration

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[tuple[int], np.dtype[np.float64]]

TERMS = ("decode", "prompt", "overhead")
# Judgements: factors are pulled to 1 as far as measurements leave them open.
MEASURED = 0.05  # how far one measurement is trusted at best, relative
USUAL = 0.5  # how far factors stray from 1, in logarithms
ROUNDS = 12  # of reweighted least squares; the last move nothing
NUDGE = 0.01  # of a factor, to see what it moves
SIGMA = 1.4826  # of a normal distribution's median absolute deviation
CAUCHY = 2.385  # 95 % efficient where errors are normal
FELT = 0.02  # a term counts as measured where its factor moves some prediction by this share of its own move


class Try(NamedTuple):
    """A subset of the terms, fitted."""

    terms: tuple[str, ...]
    factors: Calibration
    residuals: "Vector"  # log(measured / predicted)


def fit(engine: str, seen: Sequence[Observation]) -> Calibration:
    """Factors that explain the measurements, each trusted to 5 % at best; 1 where nothing speaks of a term.

    Raises:
        KvcalcError: nothing was measured.
    """
    if not seen:
        raise KvcalcError("no measurement to calibrate by", hint="give results that have a TPOT, a TTFT or a rate")
    plain = Calibration(engine=engine)
    before = _error(seen, plain)
    felt = [term for term in TERMS if _felt(seen, plain, term)]
    tries = [_fitted(seen, plain, some) for size in range(len(felt) + 1) for some in combinations(felt, size)]
    # What fits worse in the middle than no factor at all is not taken, whatever it makes of the worst.
    good = [one for one in tries if not one.terms or _error(seen, one.factors) < before]
    scale = min(_scale(one.residuals) for one in good)
    best = min(good, key=lambda one: _cost(one, scale)).factors
    return replace(best, measurements=len(seen), error=_error(seen, best), error_without=before)


def _fitted(seen: Sequence[Observation], plain: Calibration, terms: tuple[str, ...]) -> Try:
    import numpy as np

    moved = np.zeros(len(terms))
    for _ in range(ROUNDS if terms else 0):
        now = _residuals(seen, _moved(plain, terms, moved))
        slopes = np.zeros((len(seen), len(terms)))
        for term in range(len(terms)):
            nudged = moved.copy()
            nudged[term] += NUDGE
            slopes[:, term] = (_residuals(seen, _moved(plain, terms, nudged)) - now) / NUDGE
        scale = _scale(now)
        # Far from the measurements all of them still pull at 5 %: the usual 1 must not hold the first step back.
        weights = 1 / np.sqrt(1 + (now / scale / CAUCHY) ** 2) / MEASURED
        system = np.vstack([slopes * weights[:, None], np.eye(len(terms)) / USUAL])
        wanted = np.concatenate([-now * weights, -moved / USUAL])
        change = np.clip(np.linalg.lstsq(system, wanted, rcond=None)[0], -0.7, 0.7)
        moved = moved + change
        if np.abs(change).max() < 2e-3:
            break
    factors = _moved(plain, terms, moved)
    return Try(terms, factors, _residuals(seen, factors))


def _residuals(seen: Sequence[Observation], factors: Calibration) -> "Vector":
    import numpy as np

    return np.log([one.measured / one.predict(factors) for one in seen])


def _scale(residuals: "Vector") -> float:
    return max(MEASURED, SIGMA * float(median(abs(one) for one in residuals)))


def _cost(one: Try, scale: float) -> float:
    """Schwarz's criterion, with Cauchy's loss and what moves factors from 1."""
    loss = sum(CAUCHY**2 * log(1 + (value / scale / CAUCHY) ** 2) for value in one.residuals)
    strayed = sum((log(getattr(one.factors, term)) / USUAL) ** 2 for term in one.terms)
    return loss + strayed + len(one.terms) * log(max(2, len(one.residuals)))


def _felt(seen: Sequence[Observation], plain: Calibration, term: str) -> bool:
    nudged = _times(plain, {term: exp(NUDGE)})
    return any(abs(log(one.predict(nudged) / one.predict(plain))) > FELT * NUDGE for one in seen)


def _moved(plain: Calibration, terms: Sequence[str], moved: "Vector") -> Calibration:
    # The spec takes factors up to 100; far below that a step has left what measurements can mean.
    within = (exp(min(3.0, max(-3.0, float(one)))) for one in moved)
    return _times(plain, dict(zip(terms, within, strict=True)))


def _times(plain: Calibration, factors: dict[str, float]) -> Calibration:
    decode, prompt, overhead = (factors.get(term, 1.0) for term in TERMS)
    return replace(plain, decode=decode, prompt=prompt, overhead=overhead)


def _error(seen: Sequence[Observation], factors: Calibration) -> float:
    return median(abs(one.predict(factors) / one.measured - 1) for one in seen)
