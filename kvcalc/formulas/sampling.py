"""Speculative sampling: the rule that keeps the target's distribution exactly, whatever the draft proposes.

A draft token x from q is kept with probability min(1, p(x) / q(x)); at the first rejection a replacement comes from
the residual max(0, p - q), normalised. Kept and replaced together give p: min(p, q) + max(0, p - q) = p.
"""

from typing import Any

_TOLERANCE = 1e-3  # a float32 or bf16 softmax over a large vocabulary misses 1 by about this


def acceptance_rate(p: Any, q: Any) -> Any:
    """Probability that a draft token is accepted: 1 minus the total-variation distance.

    Args:
        p: Target distribution over the last axis.
        q: Draft distribution over the last axis.

    Returns:
        A float, or an array of one per leading index. Its mean over positions is the alpha of the formulas.

    Unit: 1
    Source: Leviathan et al. 2023, theorem 3.5

    >>> round(acceptance_rate([0.6, 0.4], [0.9, 0.1]), 12)
    0.7
    """
    import numpy as np

    rate = np.minimum(_distribution(p), _distribution(q)).sum(axis=-1)
    return float(rate) if rate.ndim == 0 else rate


def residual_distribution(p: Any, q: Any) -> Any:
    """What a replacement is drawn from after a rejection; p itself where p and q agree and nothing is rejected.

    Args:
        p: Target distribution over the last axis.
        q: Draft distribution over the last axis.

    Unit: 1
    Source: Leviathan et al. 2023, section 2.3; Chen et al. 2023, algorithm 2

    >>> residual_distribution([0.6, 0.4], [0.9, 0.1]).tolist()
    [0.0, 1.0]
    """
    import numpy as np

    p, q = _distribution(p), _distribution(q)
    surplus = np.maximum(p - q, 0)
    total = surplus.sum(axis=-1, keepdims=True)
    return np.where(total > 0, surplus / np.where(total > 0, total, 1), p)


def emitted_distribution(p: Any, q: Any) -> Any:
    """Distribution of the token that one position emits, worked out from the rule; by the theorem it is p.

    Args:
        p: Target distribution over the last axis.
        q: Draft distribution over the last axis.

    Unit: 1
    Source: Leviathan et al. 2023, appendix A.1; Chen et al. 2023, theorem 1

    >>> emitted_distribution([0.6, 0.4], [0.9, 0.1]).round(12).tolist()
    [0.6, 0.4]
    """
    import numpy as np

    p, q = _distribution(p), _distribution(q)
    kept = np.minimum(p, q)
    rejected = 1 - kept.sum(axis=-1, keepdims=True)
    return kept + rejected * residual_distribution(p, q)


def speculative_round(p: Any, q: Any, rng: Any) -> list[int]:
    """One exact round: draft from q, accept or replace, and a bonus token if every draft is accepted.

    Args:
        p: Target distributions, positions × vocabulary; one row more than q for the bonus token, or as many rows, and
            then there is no bonus. A single distribution is one position.
        q: Draft distributions, gamma × vocabulary.
        rng: A `numpy.random.Generator`.

    Returns:
        The emitted tokens, 1 to gamma + 1 of them; each has exactly its position's distribution p, given those before.

    Raises:
        ValueError: A row is not a distribution, or the shapes do not fit together.

    Unit: tokens
    Source: Leviathan et al. 2023, algorithm 1

    >>> import numpy as np
    >>> speculative_round([[0.5, 0.5], [0.0, 1.0]], [[0.5, 0.5]], np.random.default_rng(0))  # p = q: never rejected
    [1, 1]
    """
    import numpy as np

    target, draft = np.atleast_2d(_distribution(p)), np.atleast_2d(_distribution(q))
    gamma = len(draft)
    if target.ndim != 2 or target.shape[1:] != draft.shape[1:] or len(target) - gamma not in (0, 1):
        raise ValueError(f"p of shape {target.shape} does not go with q of shape {draft.shape}")
    emitted: list[int] = []
    for i in range(gamma):
        token = _draw(draft[i], rng)
        if rng.random() * draft[i, token] >= target[i, token]:
            return [*emitted, _draw(residual_distribution(target[i], draft[i]), rng)]
        emitted.append(token)
    if len(target) > gamma:
        emitted.append(_draw(target[gamma], rng))
    return emitted


def speculative_draws(p: Any, q: Any, count: int, rng: Any) -> Any:
    """What one position emits in many independent rounds: each token drafted, then kept or replaced, all at once.

    Args:
        p: Target distribution, one row.
        q: Draft distribution, one row.
        count: Rounds.
        rng: A `numpy.random.Generator`.

    Returns:
        How often each token was emitted.

    Raises:
        ValueError: A row is not a distribution.

    Unit: rounds
    Source: Leviathan et al. 2023, algorithm 1 at one position

    >>> import numpy as np
    >>> int(speculative_draws([0.6, 0.4], [0.9, 0.1], 2000, np.random.default_rng(0)).sum())
    2000
    """
    import numpy as np

    target, draft = _distribution(p), _distribution(q)
    tokens = rng.choice(len(draft), size=count, p=draft)
    rejected = rng.random(count) * draft[tokens] >= target[tokens]
    tokens[rejected] = rng.choice(len(draft), size=int(rejected.sum()), p=residual_distribution(target, draft))
    return np.bincount(tokens, minlength=len(draft))


def _draw(distribution: Any, rng: Any) -> int:
    """A token by inversion; one of probability zero is never drawn."""
    import numpy as np

    cumulative = np.cumsum(distribution)
    return int(np.searchsorted(cumulative, rng.random() * cumulative[-1], side="right"))


def _distribution(values: Any) -> Any:
    """Rows as float64 that sum to one."""
    import numpy as np

    rows = np.asarray(values, dtype=np.float64)
    total = rows.sum(axis=-1, keepdims=True)
    if not (np.all(rows >= 0) and np.all(np.abs(total - 1) <= _TOLERANCE)):
        raise ValueError("not a probability distribution: values must not be negative and must sum to 1")
    return rows / total
