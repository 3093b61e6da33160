"""Speculative sampling at one position: what the draft proposes, what is kept, and that together they are the target.

The lessons' example of two tokens, p = (0.6, 0.4) and q = (0.9, 0.1), and one of four; λ moves the draft from its
worst, q, to the target itself.
"""

from collections.abc import Iterator

from kvcalc.formulas.sampling import acceptance_rate, speculative_draws
from kvcalc.results.report import SampledRate, SampledToken, Sampling

EXAMPLES = {2: ((0.6, 0.4), (0.9, 0.1)), 4: ((0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.25, 0.45))}  # target, worst draft
QUALITIES = tuple(i / 10 for i in range(11))
DRAWS, SEEDS = 2000, 3


def sampling() -> Sampling:
    """Every frame: two or four tokens, each quality of the draft, and random draws to check it with."""
    rates: list[SampledRate] = []
    tokens: list[SampledToken] = []
    for count, (target, worst) in EXAMPLES.items():
        for quality in QUALITIES:
            draft = tuple(quality * p + (1 - quality) * q for p, q in zip(target, worst, strict=True))
            rate = acceptance_rate(target, draft)
            rates.append(SampledRate(tokens=count, quality=quality, acceptance=rate))
            tokens += _tokens(quality, target, draft)
    return Sampling(draws=DRAWS, rates=tuple(rates), distribution=tuple(tokens))


def _tokens(quality: float, target: tuple[float, ...], draft: tuple[float, ...]) -> Iterator[SampledToken]:
    import numpy as np

    drawn = [speculative_draws(target, draft, DRAWS, np.random.default_rng(seed)) / DRAWS for seed in range(SEEDS)]
    for i, (p, q) in enumerate(zip(target, draft, strict=True)):
        yield SampledToken(
            tokens=len(target),
            quality=quality,
            token=i + 1,
            target=p,
            draft=q,
            kept=min(p, q),
            resampled=max(0.0, p - q),  # by the theorem: P(reject) · p'(x)
            drawn=tuple(float(one[i]) for one in drawn),
        )
